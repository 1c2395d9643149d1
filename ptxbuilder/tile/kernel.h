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

// A field of a struct that is a kernel parameter: its name, and the member that receives its value.
template <class Struct, class Member, class Stored>
struct Field {
  using type = Stored;
  std::string_view name;
  Member Struct::*member;
};

// A struct that is one parameter of a kernel lists its fields in fields(), in the order of its members. A
// field is a scalar or a gptr<T>, and the struct is laid out as in C. The type of an 8-bit field is given
// explicitly, as in field<u8>(...), and its member is a u32 or s32:
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

// An array of tensor maps in global memory, for kernels that choose a tensor on the device: grouped products,
// or batches given as pointers. All maps share one recipe, which follows from the copies that use any of
// them, so tensors differ only in address, shape and strides. The host makes the maps with
// LoadedKernel::tensor_maps() (runtime/loaded_kernel.h).
//   auto [As] = k.params<TensorMapArray>("As");
//   tma_load(sA[s], As[group], kt * 64, row);
class TensorMapArray {
 public:
  explicit TensorMapArray(llvm::Value* start) : start_(start) {}

  // Returns one map, for use wherever a TensorMap is accepted; the index is not checked. A kernel that
  // changes maps itself must also execute fence.proxy.tensormap (PTX ISA, tensormap.replace).
  TensorMap operator[](u32 index) const { return TensorMap(generic_address(address(index)).handle()); }
  gmem address(u32 index) const { return start_ + u64(index) * kBytes; }

 private:
  static constexpr uint64_t kBytes = 128;
  gmem start_;
};

namespace detail {

// The device type of a parameter that is declared as T. 8-bit types are widened, since registers have at
// least 16 bits.
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

// Converts the values that declare_parameters() returns into the parameters, one after the other.
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

// A region of shared memory that several alternatives share. It begins at the first byte that is free when
// this object is made, and is as large as the largest alternative.
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

// A named axis of a grid; a rule over the arguments gives its number of CTAs (launch_rule.h).
struct LaunchAxis {
  std::string name, ctas;
};
// A named axis of a cluster.
struct ClusterExtent {
  std::string name;
  uint32_t ctas;
};

// A kernel that is being built. It can be moved; using a kernel after it was moved from throws Error.
class Kernel {
 public:
  // `name` is the name of the .entry. Throws Error when it is not an identifier or the target is unknown.
  explicit Kernel(std::string name, BuilderOptions options = {}, Where where = Where::here());
  // Adds code to a kernel or device function that another front end has begun, in a module that the front end
  // owns. insert_at() determines where the code goes; when the function is complete, call finish() and
  // compile the module (ptxbuilder/llvm.h). Make only one Kernel for each function.
  //
  // A device function can use typed values, control flow, register tiles, and shared memory that is passed to
  // it. Only kernels can use parameters, their own shared memory, roles, clusters, barriers for threads, and
  // named accumulator registers.
  explicit Kernel(llvm::Function& function, BuilderOptions options = {}, Where where = Where::here());
  Kernel(Kernel&&) = default;
  Kernel& operator=(Kernel&&) = default;

  // Declares the parameters. Their types are u8 to u64, s8 to s64, f16, bf16, f32, f64, gptr<T>, TensorMap,
  // TensorMapArray, and structs with fields(). Inside the kernel, a u8 is a u32, and an s8 is an s32. Call
  // this once, before anything else.
  //   auto [A, B, n] = k.params<TensorMap, gptr<f32>, u32>("A", "B", "n");
  template <class... T>
  auto params(detail::NameOf<T>... names, Where where = Where::here()) {
    AtLine line(where);
    detail::ParameterValues values(builder_.declare_parameters({detail::parameter<T>(names)...}));
    return std::tuple<typename detail::ParameterValue<T>::type...>{values.take<T>()...};
  }

  // Runs `body` in a front end's function: the code is emitted at the insertion point of `ir`.
  // f32(llvm_value) converts an LLVM value to a typed value, and x.handle() returns the LLVM value.
  // Afterwards `ir` is positioned after the new code, usually in another block, and before the instructions
  // that followed the insertion point. insert_at() may be called again.
  //
  //   Kernel k(*function);
  //   k.insert_at(ir, [&] { product = (f32(a) * f32(b)).handle(); });
  //   ir.CreateRetVoid();
  //   k.finish();
  void insert_at(llvm::IRBuilderBase& ir, const std::function<void()>& body, Where where = Where::here());

  // Ends the kernel and runs all checks; further calls do nothing. Compiling a kernel finishes it if
  // necessary.
  void finish(Where where = Where::here());

  // Sets how many bytes L2 fetches at once for loads through `map`; the default is 256. The copies that use
  // the map determine the other parts of its recipe.
  void promote(TensorMap map, L2Promotion promotion, Where where = Where::here());

  // Sets the whole encoding of a tensor map, for copies that are emitted as single instructions, such as
  // interleaved copies or copies with strides between elements. If tma_load() or similar functions use the
  // same map, they must require exactly this encoding.
  void encode(TensorMap map, TensorMapRecipe recipe, Where where = Where::here());

  // Sets the number of threads of a CTA, for a kernel without roles; the default is 128.
  void threads(uint32_t count, Where where = Where::here());

  // Sets the number of CTAs of a cluster, at most 16. The grid must be a multiple of the cluster. Needs sm_90
  // or later.
  void cluster(uint32_t x, uint32_t y = 1, uint32_t z = 1, Where where = Where::here());
  // Does the same, and also names the axes for later calls of axis_index(), axis_size() and cluster_axes();
  // the last axis is x.
  void cluster(std::initializer_list<ClusterExtent> axes, Where where = Where::here());

  // States how many CTAs a launch has along x, y and z, as rules over the kernel's integer parameters and the
  // extents of its tensors (launch_rule.h), for launches that do not state a grid and for the sidecar. A
  // later call replaces an earlier one. finish() throws Error if a rule is invalid or uses an unknown name.
  //   k.grid("ceil_div(count, 128)");
  void grid(std::string x, std::string y = "1", std::string z = "1", Where where = Where::here());
  // Does the same, and also names the axes for later calls of axis_index() and axis_size(). A grid has up to
  // three axes, outermost first as in a tensor; the last axis is x.
  //   k.grid({{"m", "ceil_div(M, 128)"}, {"n", "ceil_div(N, 128)"}});
  void grid(std::initializer_list<LaunchAxis> axes, Where where = Where::here());

  // Describes parameters by name, in one line each, for readers of the sidecar. Throws Error if no parameter
  // has that name.
  //   k.describe({{"x", "elements to add"}, {"count", "how many"}});
  void describe(const std::vector<std::pair<std::string, std::string>>& meanings,
                Where where = Where::here());

  // Records an option with which the kernel is generated, as name and value, for readers of the sidecar. A
  // later value of a name replaces an earlier one.
  void configure(std::string name, std::string value, Where where = Where::here());

  // Promises that each thread calls griddepcontrol_wait() before it first reads or writes memory, so that the
  // kernel may be launched before the preceding launch has finished.
  void overlaps(Where where = Where::here());

  // Declares that the kernel's CTAs wait for each other. Its launches are cooperative: a launch starts when
  // all CTAs can run at once, and fails if they do not all fit on the device.
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
  // Does the same for a type that is known only when the kernel is generated.
  SharedTile shared(DType dtype, TileShape shape, Swizzle swizzle = Swizzle::none, int stages = 1,
                    std::string name = {}, Where where = Where::here()) {
    AtLine line(where);
    return SharedTile(builder_, dtype, shape, swizzle, stages, std::move(name));
  }

  // Lets several sets of objects share one region of shared memory. Each callable makes its objects and
  // returns them; all callables begin at the same address. Objects of different callables must not be in use
  // at the same time: writing one destroys the contents of another. A callable that makes barriers throws
  // Error.
  //   auto [sA, staging] = k.shared_union([&] { return k.shared<bf16>({128, 64}, Swizzle128B, 4); },
  //                                       [&] { return k.shared<f32>({128, 128}); });
  template <std::invocable... Alternative>
  auto shared_union(Alternative&&... alternatives) {
    detail::SharedUnion place(builder_);
    return std::tuple<std::invoke_result_t<Alternative>...>{place.alternative(alternatives)...};
  }

  // Determines where the warp_index() of a role is computed: once at the kernel's entry for all roles, or at
  // the role's own entry, so that the index does not occupy a register in roles with few registers.
  enum class WarpIndex : uint8_t { of_entry, of_role };

  // Adds a role: the next `count` warpgroups of the CTA run `body(i)`, where i is 0 to count - 1. Each of
  // their threads gets `registers` registers (24 to 256 in steps of 8; 0 keeps the launch's number). All
  // roles together share 64 Ki registers, and the kernel has as many threads as its roles. Barriers that were
  // made before are visible to all roles.
  void warpgroups(int count, int registers, const std::function<void(u32)>& body,
                  WarpIndex index = WarpIndex::of_entry, Where where = Where::here());

  // Does the same, and also names the axis of the role's warpgroups, for axis_index() and axis_size() in the
  // role.
  void warpgroups(std::string axis, int count, int registers, const std::function<void(u32)>& body,
                  WarpIndex index = WarpIndex::of_entry, Where where = Where::here());

  // Makes a barrier at which `threads` threads of the CTA, in whole warps, meet. Its number is unique in the
  // kernel. Besides the number of sync_threads(), there are 15 numbers; number i + 1 is in use if the library
  // synchronizes the threads of warpgroup i. If no number is free, throws Error that lists the users of all
  // numbers.
  NamedBarrier named_barrier(int threads, Where where = Where::here()) {
    AtLine line(where);
    return NamedBarrier(builder_, threads, where);
  }

  // Permits one of the advisories that ptxas prints about a kernel, by name: "C7510", "spills", "stack".
  void waive(std::string advisory, Where where = Where::here()) {
    AtLine line(where);
    builder_.waive(std::move(advisory));
  }

  // Returns the Builder that all calls of this kernel use. Throws Error once the kernel is finished.
  Builder& builder(Where where = Where::here()) {
    AtLine line(where);
    builder_.state();
    return builder_;
  }
  // Returns the signature with which the host launches the kernel; see finish().
  const Signature& signature(Where where = Where::here()) const {
    AtLine line(where);
    return builder_.signature();
  }

  // Returns the tensor copies and matrix products that the kernel contains so far; prove() in proof/proof.h
  // checks them.
  const KernelRecord& record(Where where = Where::here());

 private:
  void begin(Where where);

  Builder builder_;
};

// Return the position of this CTA or warpgroup along a named axis of the grid, cluster or role, and the
// length of the axis. An axis of the grid counts CTAs, even if the kernel has clusters. Each function throws
// Error that lists the names if there is no such axis.
u32 axis_index(std::string_view name, Where where = Where::here());
u32 axis_size(std::string_view name, Where where = Where::here());
// Returns the axes of the cluster with these names, for multicast().
ClusterAxes cluster_axes(std::initializer_list<std::string_view> names, Where where = Where::here());

// Waits for all threads of the cluster, and makes barriers that were initialised before visible to them.
void sync_cluster(Where where = Where::here());

// Waits for all threads of the CTA, and makes barriers that were initialised before visible to them. Throws
// Error inside a role, since the threads of other roles would never arrive; use a NamedBarrier to synchronize
// some of the CTA's threads.
void sync_threads(Where where = Where::here());

// Waits only for the 128 threads of this warpgroup. Outside roles, throws Error unless the CTA is a single
// warpgroup.
void sync_warpgroup(Where where = Where::here());

// Runs `body` in one thread: an elected lane of the first warp of the warpgroup, of the warps of a warp role
// (tile/warp_roles.h) or, outside roles, of the CTA.
void elect(const std::function<void()>& body, Where where = Where::here());

// Returns the index of the warp in its CTA, in a form that ptxas recognises as uniform.
u32 warp_index(Where where = Where::here());

// Puts a value that all lanes of the warp share into a uniform register (SASS: REDUX). Use it for the stage
// of a wgmma operand that an outer loop carries while an inner loop runs: otherwise ptxas keeps the stage in
// vector registers, and moves each descriptor to uniform registers (R2UR) before its product. All lanes must
// call this. Needs sm_80.
u32 warp_uniform(u32 value, Where where = Where::here());

namespace detail {

class Reporting;  // see report.h

// The tile layer's state for a kernel that is being built.
struct TileContext : Builder::Attachment {
  struct Role {
    int first, count, registers;
    Where where;
    Builder::Place start;  // where setmaxnreg is inserted
  };
  std::vector<Role> roles;
  int role = -1;                    // the role being emitted
  std::optional<u32> warp;          // computed at the kernel's entry
  std::optional<u32> warp_of_role;  // set if the role computes its own
  // The warps of the role, or of the CTA, that execute the code being emitted; see warp_roles.h.
  struct Warps {
    int first, count;  // positions in the CTA
  };
  std::optional<Warps> warps;
  bool threads_are_stated = false;  // set by k.threads()
  // The first operation outside roles that depends on the number of threads, and that number.
  struct ThreadsUsed {
    std::string operation;
    uint32_t threads;
    Where where;
    std::string advice;
  };
  std::optional<ThreadsUsed> threads_used;
  // Records such an operation, unless a role is being emitted.
  void use_threads(std::string_view operation, std::string_view advice = "move it into a role");
  bool unpublished_barriers = false;
  Where barrier_where;
  ProductGroups products;
  // The actions of each thread at the end of its role or, without roles, at the end of the kernel.
  std::map<std::string, std::function<void()>> at_role_end;
  void end_role();
  uint32_t waits = 0;        // number of waits for mbarriers and counters emitted so far
  int unions = 0;            // number of nested shared_union calls in progress
  bool meet_at_end = false;  // set if CTAs of a cluster access each other's shared memory
  struct Scratch {
    uint32_t offset;
    int bytes;  // per warpgroup
  };
  std::map<int, Scratch> scratch;  // scratch memory of register tiles, by role
  KernelRecord record;
  std::optional<ThreadCopyRecord>* apart = nullptr;  // see RecordedApart
  std::map<size_t, OobFill> fills;  // value that loads find outside a tensor, by the number of its map
  std::map<const llvm::Value*, LoadedWord> loaded_words;  // registers, and the copies that loaded them
  bool cluster_is_used = false;  // set once barriers or roles depend on the cluster's size

  Where grid_where;  // source line that stated the grid
  struct Axis {
    enum class Of : uint8_t { grid, cluster, role } of;
    std::string name;
    int number;  // 0 for x, 1 for y, 2 for z
  };
  std::vector<Axis> axes;                             // named axes only
  std::map<const llvm::Value*, Where> work_counters;  // counters, and the source lines of the loops that use
                                                      // them
  std::optional<u32> warpgroup_of_role;
  std::string role_name;                 // name of the axis that the next role's warpgroups are along
  std::shared_ptr<Profiling> profiling;  // null unless the kernel is profiled
  std::shared_ptr<Reporting> reporting;  // null unless the kernel watches its waits or checks its values
  // Throws Error for a name that is empty or already used.
  void name_axis(Axis axis);
  const Axis& axis(std::string_view name) const;

  static TileContext& of(Builder& builder);
};

// While this object exists, a copy by threads is recorded in it rather than in the kernel's record, since the
// copy is part of an operation that is recorded separately.
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

// Returns the number of CTAs of a cluster.
int cluster_size(Builder& builder);

// Waits for all threads of the cluster without ordering their memory accesses, which saves two microseconds.
// This suffices to publish barriers, which fence.mbarrier_init orders, and to keep a CTA alive while others
// read its memory.
void meet_cluster();

// Return the index in the CTA of the warpgroup that executes the code being emitted, and the warpgroups of
// its role. Outside roles there is a single warpgroup, number 0.
u32 warpgroup_in_cta();
int first_warpgroup_of_role();
int warpgroups_in_role();

}  // namespace detail

}  // namespace ptxbuilder
