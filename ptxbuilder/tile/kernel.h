// Defines Kernel: a Builder with a launch shape, typed parameters, shared memory and warpgroup roles.
#pragma once

#include <initializer_list>
#include <map>
#include <tuple>

#include "ptxbuilder/ir/control.h"
#include "ptxbuilder/ir/memory.h"
#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/plan/record.h"
#include "ptxbuilder/tile/named_barrier.h"
#include "ptxbuilder/tile/product_groups.h"
#include "ptxbuilder/tile/profile.h"
#include "ptxbuilder/tile/shared_tile.h"

namespace ptxbuilder {

// Describes a field of a struct that is a kernel parameter: the field's name, and the member that receives
// its value.
template <class Struct, class Member, class Stored>
struct Field {
  using type = Stored;
  std::string_view name;
  Member Struct::*member;
};

// Makes a Field. A struct that is passed as one kernel parameter lists its fields in a static function
// fields(), in the order of its members. Each field is a scalar or a gptr<T>, and the struct is laid out as
// in C. An 8-bit field is declared with an explicit type, as in field<u8>(...), and its member is a u32 or an
// s32:
//   struct Scaling {
//     f32 alpha;
//     gptr<bf16> bias;
//     static constexpr auto fields() {
//       return std::tuple{field("alpha", &Scaling::alpha), field("bias", &Scaling::bias)};
//     }
//   };
template <class Stored = void, class Struct, class Member>
constexpr auto field(std::string_view name, Member Struct::*member) {
  using Type = std::conditional_t<std::is_void_v<Stored>, Member, Stored>;
  return Field<Struct, Member, Type>{name, member};
}

// An array of tensor maps in global memory, for kernels that choose a tensor on the device, for example in
// grouped products or batches of pointers. All maps share one recipe, so the tensors differ only in address,
// shape and strides. The copies that use the maps determine the recipe. The host makes the maps with
// LoadedKernel::tensor_maps() (runtime/loaded_kernel.h).
//   auto [As] = k.params<TensorMapArray>("As");
//   tma_load(sA[s], As[group], kt * 64, row);
class TensorMapArray {
 public:
  explicit TensorMapArray(llvm::Value* start) : start_(start) {}

  // Returns the map at `index`, which can be used wherever a TensorMap is accepted. The index is not checked.
  // A kernel that modifies the maps itself must also execute fence.proxy.tensormap (PTX ISA,
  // tensormap.replace).
  TensorMap operator[](u32 index) const { return TensorMap(generic_address(address(index)).handle()); }
  gmem address(u32 index) const { return start_ + u64(index) * kBytes; }

 private:
  static constexpr uint64_t kBytes = 128;
  gmem start_;
};

namespace detail {

// Maps the declared type T of a parameter to its type on the device. 8-bit types are widened, because
// registers have at least 16 bits.
template <class T>
struct ParameterValue {
  using type = T;
};
template <>
struct ParameterValue<u8> {
  using type = u32;
};
template <>
struct ParameterValue<s8> {
  using type = s32;
};

template <class T>
concept ScalarParameter = std::same_as<T, u8> || std::same_as<T, s8> ||
    (std::derived_from<T, Value>&& requires { T::dtype; });
template <class T>
concept StructParameter = requires {
  T::fields();
};

template <class T>
Parameter parameter(std::string_view name) =
    delete;  // specialized only for the types that a kernel's parameters can have

template <ScalarParameter T>
Parameter parameter(std::string_view name) {
  Parameter p;
  p.name = name;
  p.dtype = T::dtype;
  return p;
}
template <std::same_as<TensorMap> T>
Parameter parameter(std::string_view name) {
  Parameter p;
  p.name = name;
  p.kind = Parameter::Kind::tensor_map;  // the copies that use the map complete its recipe
  return p;
}
template <std::same_as<TensorMapArray> T>
Parameter parameter(std::string_view name) {
  Parameter p;
  p.name = name;
  p.kind = Parameter::Kind::tensor_map_array;
  return p;
}
template <class T>
requires std::same_as<T, gptr<typename T::element_type>> Parameter parameter(std::string_view name) {
  Parameter p;
  p.name = name;
  p.kind = Parameter::Kind::pointer;
  p.dtype = T::element_type::dtype;
  return p;
}
template <StructParameter T>
Parameter parameter(std::string_view name) {
  Parameter p;
  p.name = name;
  p.kind = Parameter::Kind::structure;
  std::apply(
      [&]<class... F>(const F&... field) {
        static_assert((!StructParameter<typename F::type> && ...),
                      "a struct's fields are scalars and gptr<T>");
        p.fields = {parameter<typename F::type>(field.name)...};
      },
      T::fields());
  return p;
}

// Converts the values that declare_parameters() returns to typed parameters.
class ParameterValues {
 public:
  explicit ParameterValues(std::vector<Value> values) : values_(std::move(values)) {}

  template <class T>
  typename ParameterValue<T>::type take() {
    if constexpr (StructParameter<T>)
      return std::apply([&](const auto&... field) { return structure<T>(field...); }, T::fields());
    else
      return typename ParameterValue<T>::type(values_[next_++].handle());
  }

 private:
  template <class T, class... F>
  T structure(const F&... field) {
    T whole{take<typename F::type>()...};
    size_t at = next_ - sizeof...(F);
    (((whole.*field.member).handle() == values_[at++].handle() ? void() : out_of_order(field.name)), ...);
    return whole;
  }
  [[noreturn]] void out_of_order(std::string_view field) const;

  std::vector<Value> values_;
  size_t next_ = 0;
};

template <class T>
using NameOf = std::string_view;

// A region of shared memory that several alternatives share. The region begins at the first byte that is free
// when this object is created, and is as large as the largest alternative.
class SharedUnion {
 public:
  explicit SharedUnion(Builder& builder);
  ~SharedUnion();
  SharedUnion(const SharedUnion&) = delete;

  auto alternative(std::invocable auto& make) {
    rewind();
    return make();
  }

 private:
  void rewind();

  Builder& builder_;
  uint32_t start_, end_;
};

}  // namespace detail

// A named axis of a grid. `ctas` is a rule that computes its number of CTAs from the kernel's arguments
// (launch_rule.h).
struct LaunchAxis {
  std::string name, ctas;
};
// A named axis of a cluster, and the number of CTAs along it.
struct ClusterExtent {
  std::string name;
  uint32_t ctas;
};

// A kernel that is being built. It can be moved; the use of a moved-from kernel throws Error.
class Kernel {
 public:
  // `name` is the name of the .entry. Throws Error if `name` is not an identifier or the target is unknown.
  explicit Kernel(std::string name, BuilderOptions options = {}, Where where = Where::here());
  // Adds code to an unfinished kernel or device function of another front end, in a module that the front end
  // owns. insert_at() determines where the code is inserted. When the function is complete, call finish() and
  // compile the module (ptxbuilder/llvm.h). Make only one Kernel for each function.
  //
  // A device function can use typed values, control flow, register tiles, and shared memory that is passed to
  // it. Only kernels can use parameters, their own shared memory, roles, clusters, barriers for threads, and
  // named accumulator registers.
  explicit Kernel(llvm::Function& function, BuilderOptions options = {}, Where where = Where::here());
  Kernel(Kernel&&) = default;
  Kernel& operator=(Kernel&&) = default;

  // Declares the parameters, and returns them as typed values. Parameters can have the types u8 to u64, s8 to
  // s64, f16, bf16, f32, f64, gptr<T>, TensorMap and TensorMapArray, and can be structs with fields(). Inside
  // the kernel, a u8 becomes a u32, and an s8 becomes an s32. Call this once, before anything else.
  //   auto [A, B, n] = k.params<TensorMap, gptr<f32>, u32>("A", "B", "n");
  template <class... T>
  auto params(detail::NameOf<T>... names, Where where = Where::here()) {
    AtLine line(where);
    detail::ParameterValues values(builder_.declare_parameters({detail::parameter<T>(names)...}));
    return std::tuple<typename detail::ParameterValue<T>::type...>{values.take<T>()...};
  }

  // Runs `body`, which emits code at the insertion point of `ir` in a front end's function. f32(llvm_value)
  // converts an LLVM value to a typed value, and x.handle() returns the LLVM value. Afterwards `ir` is
  // positioned after the new code, usually in another block, and before the instructions that followed the
  // insertion point. insert_at() may be called again.
  //
  //   Kernel k(*function);
  //   k.insert_at(ir, [&] { product = (f32(a) * f32(b)).handle(); });
  //   ir.CreateRetVoid();
  //   k.finish();
  void insert_at(llvm::IRBuilderBase& ir, const std::function<void()>& body, Where where = Where::here());

  // Completes the kernel and runs all checks. Further calls do nothing. If a kernel is not finished when it
  // is compiled, the compilation finishes it.
  void finish(Where where = Where::here());

  // Sets the number of bytes that L2 fetches at once for loads through `map`; the default is 256. The copies
  // that use the map determine all other parts of its recipe.
  void promote(TensorMap map, L2Promotion promotion, Where where = Where::here());

  // Sets all parts of the encoding of a tensor map, for copies that are emitted as single instructions, such
  // as interleaved copies or copies with strides between elements. If tma_load() or similar functions use the
  // same map, they must require exactly this encoding.
  void encode(TensorMap map, TensorMapRecipe recipe, Where where = Where::here());

  // Sets the number of threads of a CTA, for a kernel without roles; the default is 128.
  void threads(uint32_t count, Where where = Where::here());

  // Sets the number of CTAs of a cluster along each axis, at most 16 in total. The grid must be a multiple of
  // the cluster along each axis. Needs sm_90 or later.
  void cluster(uint32_t x, uint32_t y = 1, uint32_t z = 1, Where where = Where::here());
  // Sets the number of CTAs of a cluster, and also names its axes for later calls to axis_index(),
  // axis_size() and cluster_axes(). The last axis is x.
  void cluster(std::initializer_list<ClusterExtent> axes, Where where = Where::here());

  // Sets rules that compute the number of CTAs of a launch along x, y and z from the kernel's integer
  // parameters and the extents of its tensors (launch_rule.h). The rules apply to launches that do not
  // specify a grid, and are part of the sidecar. A later call replaces an earlier one. finish() throws Error
  // if a rule is invalid or uses an unknown name.
  //   k.grid("ceil_div(count, 128)");
  void grid(std::string x, std::string y = "1", std::string z = "1", Where where = Where::here());
  // Sets the grid's rules, and also names its axes for later calls to axis_index() and axis_size(). A grid
  // has up to three axes, which are listed outermost first, as in a tensor, so the last axis is x.
  //   k.grid({{"m", "ceil_div(M, 128)"}, {"n", "ceil_div(N, 128)"}});
  void grid(std::initializer_list<LaunchAxis> axes, Where where = Where::here());

  // Adds one-line descriptions of parameters to the sidecar, as pairs of name and description. Throws Error
  // if there is no parameter with one of these names.
  //   k.describe({{"x", "elements to add"}, {"count", "how many"}});
  void describe(const std::vector<std::pair<std::string, std::string>>& meanings,
                Where where = Where::here());

  // Adds to the sidecar the name and value of an option that was used to generate the kernel. A later value
  // for the same name replaces an earlier one.
  void configure(std::string name, std::string value, Where where = Where::here());

  // Promises that each thread calls griddepcontrol_wait() before it first reads or writes memory, so that the
  // kernel may be launched before the preceding launch has finished.
  void overlaps(Where where = Where::here());

  // Declares that the kernel's CTAs wait for each other. Launches of the kernel are then cooperative: a
  // launch starts when all CTAs can run at once, and fails if they do not all fit on the device.
  void cooperative(Where where = Where::here());

  // Allocates `stages` tiles of `shape` elements of T in shared memory. The rows of a swizzled tile are cut
  // into panels as wide as the swizzle's span. Throws Error if a row is not a multiple of 16 bytes or of the
  // span, or if the tiles do not fit into shared memory. The emulator's reports call the tile `name`, or
  // "tile 0 (bf16 128x64)" if it has no name.
  template <class T>
  SharedTile shared(TileShape shape, Swizzle swizzle = Swizzle::none, int stages = 1, std::string name = {},
                    Where where = Where::here()) {
    AtLine line(where);
    return shared(T::dtype, shape, swizzle, stages, std::move(name));
  }
  // Allocates `stages` tiles whose element type is known only when the kernel is generated.
  SharedTile shared(DType dtype, TileShape shape, Swizzle swizzle = Swizzle::none, int stages = 1,
                    std::string name = {}, Where where = Where::here()) {
    AtLine line(where);
    return SharedTile(builder_, dtype, shape, swizzle, stages, std::move(name));
  }

  // Lets several sets of objects share one region of shared memory. Each callable makes its objects and
  // returns them, and the objects of every callable begin at the same address. Objects of different callables
  // must not be in use at the same time, because a write to one object destroys the contents of others.
  // Throws Error if a callable makes barriers.
  //   auto [sA, staging] = k.shared_union([&] { return k.shared<bf16>({128, 64}, Swizzle128B, 4); },
  //                                       [&] { return k.shared<f32>({128, 128}); });
  template <std::invocable... Alternative>
  auto shared_union(Alternative&&... alternatives) {
    detail::SharedUnion place(builder_);
    return std::tuple<std::invoke_result_t<Alternative>...>{place.alternative(alternatives)...};
  }

  // Determines where a role's warp_index() is computed: once for all roles, at the kernel's entry
  // (`of_entry`), or at the role's own entry (`of_role`). The latter saves a register in roles with few
  // registers.
  enum class WarpIndex : uint8_t { of_entry, of_role };

  // Adds a role: the next `count` warpgroups of the CTA run `body(i)`, where i is 0 to count - 1. Each thread
  // in these warpgroups gets `registers` registers: 24 to 256 in steps of 8, or the launch's number if
  // `registers` is 0. All roles together share 64 Ki registers. The kernel's CTAs consist of exactly the
  // threads of its roles. All roles see the barriers that were made before this call.
  void warpgroups(int count, int registers, const std::function<void(u32)>& body,
                  WarpIndex index = WarpIndex::of_entry, Where where = Where::here());

  // Adds a role, and names the axis of its warpgroups, for calls to axis_index() and axis_size() in the role.
  void warpgroups(std::string axis, int count, int registers, const std::function<void(u32)>& body,
                  WarpIndex index = WarpIndex::of_entry, Where where = Where::here());

  // Makes a barrier at which `threads` threads of the CTA, in complete warps, meet. The barrier's number is
  // unique in the kernel. There are 15 numbers besides 0, which sync_threads() uses. Number i + 1 is in use
  // if the library synchronizes the threads of warpgroup i. If no number is free, this function throws an
  // Error that lists the user of each number.
  NamedBarrier named_barrier(int threads, Where where = Where::here()) {
    AtLine line(where);
    return NamedBarrier(builder_, threads, where);
  }

  // Permits an advisory that ptxas may print about the kernel. `advisory` is a code such as "C7510", or
  // "spills" or "stack".
  void waive(std::string advisory, Where where = Where::here()) {
    AtLine line(where);
    builder_.waive(std::move(advisory));
  }

  // Returns the Builder that this kernel's functions use. Throws Error once the kernel is finished.
  Builder& builder(Where where = Where::here()) {
    AtLine line(where);
    builder_.state();
    return builder_;
  }
  // Returns the signature that the host uses to launch the kernel. Call finish() first.
  const Signature& signature(Where where = Where::here()) const {
    AtLine line(where);
    return builder_.signature();
  }

  // Returns the tensor copies and matrix products that have been emitted. prove() in proof/proof.h checks
  // this record.
  const KernelRecord& record(Where where = Where::here());

 private:
  void begin(Where where);

  Builder builder_;
};

// Return the position of this CTA or warpgroup along a named axis of the grid, cluster or role, and the
// length of the axis. An axis of the grid counts CTAs, even if the kernel has clusters. If no axis has this
// name, both functions throw an Error that lists the existing names.
u32 axis_index(std::string_view name, Where where = Where::here());
u32 axis_size(std::string_view name, Where where = Where::here());
// Returns the axes of the cluster with these names, for multicast().
ClusterAxes cluster_axes(std::initializer_list<std::string_view> names, Where where = Where::here());

// Waits for all threads of the cluster. Barriers that were initialised before the call are then visible to
// all of these threads.
void sync_cluster(Where where = Where::here());

// Waits for all threads of the CTA. Barriers that were initialised before the call are then visible to all of
// these threads. Throws Error inside a role, because the threads of other roles would never arrive; use a
// NamedBarrier to synchronize some of the CTA's threads.
void sync_threads(Where where = Where::here());

// Waits for the 128 threads of this warpgroup, and for no others. Outside roles, throws Error unless the CTA
// is a single warpgroup.
void sync_warpgroup(Where where = Where::here());

// Runs `body` in one thread, which is an elected lane of a warp. In a role, the lane is in the first warp of
// the warpgroup. In a warp role (tile/warp_roles.h), it is in the first warp of the warp role. Outside roles,
// it is in the first warp of the CTA.
void elect(const std::function<void()>& body, Where where = Where::here());

// Returns the index of this warp in its CTA, in a form that ptxas recognises as uniform.
u32 warp_index(Where where = Where::here());

// Moves a value that is equal in all lanes of the warp to a uniform register (SASS: REDUX). Use this function
// if an outer loop carries the stage of a wgmma operand while an inner loop runs. Otherwise, ptxas keeps the
// stage in vector registers, and moves each descriptor to uniform registers (R2UR) before the descriptor's
// product. All lanes must call this. Needs sm_80.
u32 warp_uniform(u32 value, Where where = Where::here());

namespace detail {

class Reporting;  // see report.h

// Holds the tile layer's state for a kernel that is being built.
struct TileContext : Builder::Attachment {
  struct Role {
    int first, count, registers;
    Where where;
    Builder::Place start;  // place at which setmaxnreg is inserted
  };
  std::vector<Role> roles;
  int role = -1;                    // index of the role being emitted; -1 outside roles
  std::optional<u32> warp;          // warp_index(), computed at the kernel's entry
  std::optional<u32> warp_of_role;  // warp_index(), if the current role computes it at its own entry
  // The warps that execute the code being emitted, if it is in a warp role (see warp_roles.h).
  struct Warps {
    int first, count;  // index of the first warp in the CTA, and the number of warps
  };
  std::optional<Warps> warps;
  bool threads_are_stated = false;  // set by k.threads()
  // Describes the first operation outside roles that depends on the number of threads.
  struct ThreadsUsed {
    std::string operation;
    uint32_t threads;
    Where where;
    std::string advice;
  };
  std::optional<ThreadsUsed> threads_used;
  // Records an operation that depends on the number of threads, unless a role is being emitted.
  void use_threads(std::string_view operation, std::string_view advice = "move it into a role");
  bool unpublished_barriers = false;
  Where barrier_where;
  ProductGroups products;
  // The actions of each thread at the end of its role or, without roles, at the end of the kernel.
  std::map<std::string, std::function<void()>> at_role_end;
  void end_role();
  uint32_t waits = 0;        // number of waits for mbarriers and counters that have been emitted
  int unions = 0;            // number of nested shared_union calls in progress
  bool meet_at_end = false;  // set if CTAs of a cluster access each other's shared memory
  struct Scratch {
    uint32_t offset;
    int bytes;  // number of bytes for each warpgroup
  };
  std::map<int, Scratch> scratch;  // scratch memory that register tiles use, for each role
  KernelRecord record;
  std::optional<ThreadCopyRecord>* apart = nullptr;  // see RecordedApart
  std::map<size_t, OobFill> fills;  // value outside a tensor, for each number of a tensor map
  std::map<const llvm::Value*, LoadedWord> loaded_words;  // the load that defined each register
  bool cluster_is_used = false;  // set once barriers or roles depend on the cluster's size

  Where grid_where;  // source line that stated the grid
  struct Axis {
    enum class Of : uint8_t { grid, cluster, role } of;
    std::string name;
    int number;  // 0 for x, 1 for y, 2 for z
  };
  std::vector<Axis> axes;                             // axes that have names
  std::map<const llvm::Value*, Where> work_counters;  // the source line of the loop that uses each counter
  std::optional<u32> warpgroup_of_role;
  std::string role_name;                 // name of the axis of the next role's warpgroups
  std::shared_ptr<Profiling> profiling;  // null unless the kernel is profiled
  std::shared_ptr<Reporting> reporting;  // null unless the kernel has a watchdog or checks
  // Throws Error for a name that is empty or already used.
  void name_axis(Axis axis);
  const Axis& axis(std::string_view name) const;

  static TileContext& of(Builder& builder);
};

// While this object exists, a copy by threads is recorded in this object and not in the kernel's record.
// Operations that include such a copy, but are recorded in another way, use this class.
class RecordedApart {
 public:
  explicit RecordedApart(TileContext& context) : context_(context) { context.apart = &record_; }
  ~RecordedApart() { context_.apart = nullptr; }
  RecordedApart(const RecordedApart&) = delete;
  RecordedApart& operator=(const RecordedApart&) = delete;

  // Returns the copy that was recorded.
  ThreadCopyRecord take() { return std::move(record_).value(); }

 private:
  TileContext& context_;
  std::optional<ThreadCopyRecord> record_;
};

// Returns the number of CTAs in a cluster.
int cluster_size(Builder& builder);

// Waits for all threads of the cluster without ordering their memory accesses, to save two microseconds. The
// wait suffices to publish barriers, because fence.mbarrier_init orders their initialisation. It also
// suffices to keep a CTA alive while others read its memory.
void meet_cluster();

// warpgroup_in_cta() returns the index in the CTA of the warpgroup that executes the code being emitted. The
// other functions return the first warpgroup of the role being emitted, and the role's number of warpgroups.
// Outside roles, there is a single warpgroup, number 0.
u32 warpgroup_in_cta();
int first_warpgroup_of_role();
int warpgroups_in_role();

}  // namespace detail

}  // namespace ptxbuilder
