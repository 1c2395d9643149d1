#include "ptxbuilder/tile/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/launch_rule.h"
#include "ptxbuilder/tile/jitter.h"
#include "ptxbuilder/tile/report.h"

namespace ptxbuilder {
namespace {

using detail::TileContext;

// Returns the warp's index, read from lane 0's register. ptxas then treats the value as equal in all lanes,
// and generates branches and indexing without divergence.
u32 uniform_warp_index() { return shfl_sync_idx(tid_x() >> 5, 0); }

// Returns the number of registers of a CTA: the multiprocessor's registers, divided by the number of CTAs
// that run on it at once.
int registers_of_cta(const Builder& builder) {
  return hopper::sm_registers / static_cast<int>(builder.held_at_once());
}
// Returns the number of registers that a thread has at the kernel's start. ptxas derives it from .maxntid and
// .minnctapersm.
int launch_registers(const Builder& builder, int threads) {
  return std::min(registers_of_cta(builder) / threads / 8 * 8, 248);
}

// Emits the setmaxnreg instruction of each role. Must be called when all roles are known.
void finish_roles(Builder& builder) {
  TileContext& context = TileContext::of(builder);
  if (context.roles.empty()) return;
  int warpgroups = 0;
  for (const auto& role : context.roles) warpgroups += role.count;
  int threads = hopper::warpgroup_threads * warpgroups;
  if (threads > hopper::cta_threads)
    throw Error(context.roles.back().where,
                fmt::format("warpgroups: the roles have {} threads, but a CTA has at most {}", threads,
                            hopper::cta_threads));
  builder.signature().threads = static_cast<uint32_t>(threads);
  if (const auto& used = context.threads_used; used && static_cast<int>(used->threads) != threads)
    throw Error(used->where,
                fmt::format("{}: this was emitted outside of roles for a CTA of {} threads, but with the "
                            "roles, the CTA has {} threads, which would all execute it; {}",
                            used->operation, used->threads, threads, used->advice));

  int total = 0;
  std::string sum;
  for (const auto& role : context.roles) {
    int registers = role.registers ? role.registers : launch_registers(builder, threads);
    total += hopper::warpgroup_threads * role.count * registers;
    sum += fmt::format("{}{} x {} x {}", sum.empty() ? "" : " + ", role.count, hopper::warpgroup_threads,
                       registers);
  }
  if (total > registers_of_cta(builder))
    throw Error(
        context.roles.back().where,
        fmt::format(
            "warpgroups: the roles need {} = {} registers, but an SM has {}{}", sum, total,
            hopper::sm_registers,
            builder.held_at_once() == 1 ? "" : fmt::format(" for {} CTAs at once", builder.held_at_once())));

  for (const auto& role : context.roles)
    builder.emit_at(role.start, [&] {
      if (role.registers == 0) return;
      if (role.registers > launch_registers(builder, threads))
        setmaxnreg_inc(role.registers, role.where);
      else
        setmaxnreg_dec(role.registers, role.where);
    });
}

void check_tensor_maps(Builder& builder) {
  for (const Parameter& p : builder.signature().parameters)
    if (p.has_recipe() && p.tensor_map.box.empty())
      throw Error(builder.parameters_where(),
                  fmt::format("{}: no copy uses the tensor map '{}', so its box is not known; if "
                              "instruction<...> copies, declare the box with k.encode({}, ...)",
                              builder.signature().kernel, p.name, p.name));
}

std::string role_in_words(const TileContext::Role& role) {
  return role.count == 1 ? fmt::format("warpgroup {}", role.first)
                         : fmt::format("warpgroups {} to {}", role.first, role.first + role.count - 1);
}

// Checks the grid's rules, and the parameters to which they refer.
void check_grid(Builder& builder) {
  if (!builder.signature().grid) return;
  const AuthorsCode finish_is_not_to_blame;
  const CallersLine line(TileContext::of(builder).grid_where);
  const GridRule check(builder.signature());
}

// Names all axes of a kind; the last axis is x. Calls `each` with every axis and its number. New names
// replace earlier names of the same kind.
template <class List, class Each>
void name_axes(TileContext& context, TileContext::Axis::Of of, const List& axes, const Each& each) {
  const char* kind = of == TileContext::Axis::Of::grid ? "grid" : "cluster";
  if (axes.size() < 1 || axes.size() > 3)
    throw Error(fmt::format("{}: {} axes were named, but there must be 1 to 3", kind, axes.size()));
  std::erase_if(context.axes, [&](const TileContext::Axis& axis) { return axis.of == of; });
  size_t number = axes.size();
  for (const auto& axis : axes) {
    context.name_axis({of, axis.name, static_cast<int>(--number)});
    each(number, axis);
  }
}

}  // namespace

namespace detail {

void TileContext::name_axis(Axis axis) {
  if (axis.name.empty()) throw Error("axis: the name is empty");
  for (const Axis& other : axes)
    if (other.name == axis.name)
      throw Error(fmt::format("axis: \"{}\" is already the name of another axis", axis.name));
  axes.push_back(std::move(axis));
}

const TileContext::Axis& TileContext::axis(std::string_view name) const {
  std::string names;
  for (const Axis& axis : axes) {
    if (axis.name == name) return axis;
    names += (names.empty() ? "" : ", ") + axis.name;
  }
  throw Error(fmt::format(
      "axis: no axis here is named \"{}\"; {}", name,
      names.empty() ? "the grid, the cluster and the role do not name any" : "there are " + names));
}

TileContext& TileContext::of(Builder& builder) {
  if (!builder.attachment()) builder.attachment() = std::make_unique<TileContext>();
  return static_cast<TileContext&>(*builder.attachment());
}

void TileContext::use_threads(std::string_view operation, std::string_view advice) {
  if (role < 0 && !threads_used)
    threads_used = {std::string(operation), Builder::current().signature().threads, Where::here(),
                    std::string(advice)};
}

void TileContext::end_role() {
  for (const auto& [name, action] : std::exchange(at_role_end, {})) action();
}

SharedUnion::SharedUnion(Builder& builder)
    : builder_(builder), start_(builder.signature().dynamic_shared_bytes), end_(start_) {
  ++TileContext::of(builder).unions;
}

void SharedUnion::rewind() {
  end_ = std::max(end_, std::exchange(builder_.signature().dynamic_shared_bytes, start_));
}

SharedUnion::~SharedUnion() {
  rewind();
  builder_.signature().dynamic_shared_bytes = end_;
  auto& objects = builder_.signature().shared;
  std::stable_sort(objects.begin(), objects.end(),
                   [](const SharedObject& a, const SharedObject& b) { return a.offset < b.offset; });
  --TileContext::of(builder_).unions;
}

void ParameterValues::out_of_order(std::string_view field) const {
  throw Error(
      fmt::format("params: the field '{}' is not at the offset of its member: a struct must list its fields "
                  "in the order of its members",
                  field));
}

int cluster_size(Builder& builder) {
  TileContext::of(builder).cluster_is_used = true;
  auto [x, y, z] = builder.signature().cluster;
  return static_cast<int>(x * y * z);
}

u32 warpgroup_in_cta() {
  TileContext& context = TileContext::of(Builder::current());
  if (context.role < 0) return 0;
  if (context.roles[context.role].count == 1) return context.roles[context.role].first;
  return warp_index() / 4;
}

int first_warpgroup_of_role() {
  TileContext& context = TileContext::of(Builder::current());
  return context.role < 0 ? 0 : context.roles[context.role].first;
}

int warpgroups_in_role() {
  TileContext& context = TileContext::of(Builder::current());
  return context.role < 0 ? 1 : context.roles[context.role].count;
}

}  // namespace detail

Kernel::Kernel(std::string name, BuilderOptions options, Where where)
    : builder_(std::move(name), std::move(options), where) {
  TileContext::of(builder_).profiling = detail::begin_profiling(builder_);
  TileContext::of(builder_).reporting = detail::begin_reporting(builder_);
  detail::begin_jitter(builder_);
  begin(where);
}

Kernel::Kernel(llvm::Function& function, BuilderOptions options, Where where)
    : builder_(function, std::move(options), where) {
  begin(where);
}

void Kernel::insert_at(llvm::IRBuilderBase& ir, const std::function<void()>& body, Where where) {
  builder_.insert_at(ir, body, where);
}

void Kernel::finish(Where where) {
  CallersLine line(where);
  builder_.finish();
}

void Kernel::begin(Where where) {
  AtLine line(where);
  builder_.on_loop([&products = TileContext::of(builder_).products](bool begins) {
    begins ? products.begin_loop() : products.end_loop();
  });
  builder_.on_end([] {
    TileContext& context = TileContext::of(Builder::current());
    if (context.unpublished_barriers)
      throw Error(context.barrier_where,
                  "barrier: neither sync_threads() nor a role follows, so other threads may use the barrier "
                  "before it is initialised");
    context.end_role();
    if (context.meet_at_end) {
      AtLine line(context.barrier_where);
      detail::meet_cluster();
      context.meet_at_end = false;
    }
    if ((context.profiling || context.reporting) && !context.roles.empty()) {
      const TileContext::Role& last = context.roles.back();
      Builder::current().signature().threads =
          static_cast<uint32_t>(hopper::warpgroup_threads * (last.first + last.count));
    }
    if (context.profiling) detail::end_profiling(*context.profiling);
    if (context.reporting) context.reporting->end();
  });
  builder_.on_finish([] {
    Builder& builder = Builder::current();
    check_tensor_maps(builder);
    check_grid(builder);
    finish_roles(builder);
  });
}

const KernelRecord& Kernel::record(Where where) {
  AtLine line(where);
  KernelRecord& record = TileContext::of(builder()).record;
  record.kernel = signature().kernel;
  return record;
}

void Kernel::promote(TensorMap map, L2Promotion promotion, Where where) {
  AtLine line(where);
  builder_.check_current();
  builder_.signature().parameters[builder_.parameter_index(map)].tensor_map.l2_promotion = promotion;
}

void Kernel::encode(TensorMap map, TensorMapRecipe recipe, Where where) {
  AtLine line(where);
  builder_.check_current();
  Parameter& parameter = builder_.signature().parameters[builder_.parameter_index(map)];
  if (recipe.box.empty() || recipe.box.size() > 5 || recipe.element_strides.size() != recipe.box.size())
    throw Error(
        fmt::format("encode: the box has {} extents and {} element strides, but a tensor map must have 1 to "
                    "5 dimensions, each with an extent and a stride",
                    recipe.box.size(), recipe.element_strides.size()));
  if (!parameter.tensor_map.box.empty())
    throw Error(
        fmt::format("encode: the tensor map '{}' already serves copies, which determine its encoding: "
                    "declare a second map",
                    parameter.name));
  parameter.dtype = recipe.dtype;
  parameter.tensor_map = std::move(recipe);
}

void Kernel::threads(uint32_t count, Where where) {
  AtLine line(where);
  builder_.check_current();
  if (count == 0 || count > hopper::cta_threads)
    throw Error(fmt::format("threads: a CTA must have 1 to {} threads, not {}", hopper::cta_threads, count));
  if (!TileContext::of(builder_).roles.empty())
    throw Error("threads: the roles determine the number of threads: 128 for each warpgroup");
  if (const auto& used = TileContext::of(builder_).threads_used; used && count != used->threads)
    throw Error(
        fmt::format("threads: {} were requested after operations of a CTA of {}; call threads() before them",
                    count, used->threads));
  TileContext::of(builder_).threads_are_stated = true;
  builder_.signature().threads = count;
}

void Kernel::cluster(uint32_t x, uint32_t y, uint32_t z, Where where) {
  AtLine line(where);
  builder_.check_current();
  builder_.check_is_kernel("cluster");
  if (TileContext::of(builder_).cluster_is_used)
    throw Error(
        fmt::format("cluster: {} x {} x {} CTAs were requested after roles or barriers had been made for {}; "
                    "call cluster() before them",
                    x, y, z, detail::cluster_size(builder_)));
  uint64_t ctas = uint64_t{x} * y * z;
  constexpr uint32_t kMost = hopper::largest_cluster;
  if (x > kMost || y > kMost || z > kMost || ctas == 0 || ctas > kMost)
    throw Error(fmt::format("cluster: {} x {} x {} CTAs were requested, but a cluster must have 1 to {}", x,
                            y, z, kMost));
  builder_.require(78, isa::Sm::sm_90, "cluster");
  builder_.signature().cluster = {x, y, z};
}

void Kernel::grid(std::string x, std::string y, std::string z, Where where) {
  AtLine line(where);
  builder_.check_current();
  builder_.check_is_kernel("grid");
  TileContext::of(builder_).grid_where = where;
  builder_.signature().grid = {std::move(x), std::move(y), std::move(z)};
}

void Kernel::grid(std::initializer_list<LaunchAxis> axes, Where where) {
  AtLine line(where);
  std::array<std::string, 3> rules = {"1", "1", "1"};
  name_axes(TileContext::of(builder_), TileContext::Axis::Of::grid, axes,
            [&](size_t axis, const LaunchAxis& a) { rules[axis] = a.ctas; });
  grid(rules[0], rules[1], rules[2]);
}

void Kernel::cluster(std::initializer_list<ClusterExtent> axes, Where where) {
  AtLine line(where);
  std::array<uint32_t, 3> ctas = {1, 1, 1};
  name_axes(TileContext::of(builder_), TileContext::Axis::Of::cluster, axes,
            [&](size_t axis, const ClusterExtent& a) { ctas[axis] = a.ctas; });
  cluster(ctas[0], ctas[1], ctas[2]);
}

void Kernel::warpgroups(std::string axis, int count, int registers, const std::function<void(u32)>& body,
                        WarpIndex index, Where where) {
  AtLine line(where);
  TileContext::of(builder_).role_name = axis;
  warpgroups(
      count, registers,
      [&](u32 warpgroup) {
        TileContext& context = TileContext::of(builder_);
        {
          AtLine inner(where);
          context.name_axis({TileContext::Axis::Of::role, axis, 0});
        }
        context.warpgroup_of_role = warpgroup;
        body(warpgroup);
        context.warpgroup_of_role.reset();
        context.axes.pop_back();
      },
      index);
}

u32 axis_index(std::string_view name, Where where) {
  AtLine line(where);
  const TileContext& context = TileContext::of(Builder::current());
  const TileContext::Axis& axis = context.axis(name);
  switch (axis.of) {
    case TileContext::Axis::Of::grid:
      return axis.number == 0 ? u32(ctaid_x()) : axis.number == 1 ? u32(ctaid_y()) : u32(ctaid_z());
    case TileContext::Axis::Of::cluster:
      return axis.number == 0   ? u32(cluster_ctaid_x())
             : axis.number == 1 ? u32(cluster_ctaid_y())
                                : u32(cluster_ctaid_z());
    case TileContext::Axis::Of::role:
      break;
  }
  return *context.warpgroup_of_role;
}

u32 axis_size(std::string_view name, Where where) {
  AtLine line(where);
  Builder& builder = Builder::current();
  const TileContext& context = TileContext::of(builder);
  const TileContext::Axis& axis = context.axis(name);
  switch (axis.of) {
    case TileContext::Axis::Of::grid:
      return axis.number == 0 ? u32(nctaid_x()) : axis.number == 1 ? u32(nctaid_y()) : u32(nctaid_z());
    case TileContext::Axis::Of::cluster:
      return builder.signature().cluster[static_cast<size_t>(axis.number)];
    case TileContext::Axis::Of::role:
      break;
  }
  return static_cast<uint32_t>(detail::warpgroups_in_role());
}

ClusterAxes cluster_axes(std::initializer_list<std::string_view> names, Where where) {
  AtLine line(where);
  ClusterAxes axes;
  for (std::string_view name : names) {
    const TileContext::Axis& axis = TileContext::of(Builder::current()).axis(name);
    if (axis.of != TileContext::Axis::Of::cluster)
      throw Error(fmt::format("cluster_axes: \"{}\" is not an axis of the cluster", name));
    axes = axes | static_cast<ClusterAxis>(axis.number);
  }
  return axes;
}

void Kernel::describe(const std::vector<std::pair<std::string, std::string>>& meanings, Where where) {
  AtLine line(where);
  builder_.check_current();
  std::vector<Parameter>& parameters = builder_.signature().parameters;
  for (const auto& [name, meaning] : meanings) {
    const auto parameter = std::find_if(parameters.begin(), parameters.end(),
                                        [&](const Parameter& p) { return p.name == name; });
    if (parameter == parameters.end()) {
      std::string names;
      for (const Parameter& p : parameters) names += (names.empty() ? "" : ", ") + p.name;
      throw Error(fmt::format("describe: no parameter is named '{}'; the parameters are {}", name, names));
    }
    parameter->meaning = meaning;
  }
}

void Kernel::configure(std::string name, std::string value, Where where) {
  AtLine line(where);
  builder_.check_current();
  auto& all = builder_.signature().configuration;
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const auto& choice) { return choice.first == name; });
  if (known == all.end())
    all.emplace_back(std::move(name), std::move(value));
  else
    known->second = std::move(value);
}

void Kernel::overlaps(Where where) {
  AtLine line(where);
  builder_.check_current();
  builder_.check_is_kernel("overlaps");
  builder_.signature().overlaps = true;
}

void Kernel::cooperative(Where where) {
  AtLine line(where);
  builder_.check_current();
  builder_.check_is_kernel("cooperative");
  builder_.signature().cooperative = true;
}

void Kernel::warpgroups(int count, int registers, const std::function<void(u32)>& body, WarpIndex index,
                        Where where) {
  AtLine line(where);
  builder_.check_current();
  builder_.check_is_kernel("roles");
  TileContext& context = TileContext::of(builder_);
  if (context.role >= 0) throw Error("warpgroups: a role cannot be made inside another role");
  if (context.threads_are_stated)
    throw Error(
        fmt::format("warpgroups: threads({}) was called before, but the roles determine the number of "
                    "threads: 128 for each warpgroup",
                    builder_.signature().threads));
  if (count < 1)
    throw Error(fmt::format("warpgroups: a role must have at least one warpgroup, not {}", count));
  if (registers != 0 &&
      (registers < hopper::least_role_registers || registers > hopper::most_role_registers ||
       registers % hopper::role_register_step != 0))
    throw Error(fmt::format("warpgroups: registers must be {} to {} in steps of {}, or 0, but are {}",
                            hopper::least_role_registers, hopper::most_role_registers,
                            hopper::role_register_step, registers));
  if (context.unpublished_barriers) {
    if (detail::cluster_size(builder_) > 1)
      detail::meet_cluster();
    else
      sync_threads();
  }

  int first = 0;
  for (const auto& role : context.roles) first += role.count;
  u32 group = warp_index() / 4;
  pred mine = count == 1 ? group == first : first == 0 ? group < count : group - first < count;
  auto role = [&] {
    context.roles.push_back({first, count, registers, Where::here(), builder_.remember_place()});
    context.role = static_cast<int>(context.roles.size()) - 1;
    u32 own = group;
    if (index == WarpIndex::of_role) {
      context.warp_of_role.emplace(uniform_warp_index());
      own = *context.warp_of_role / 4;
    }
    std::string name = std::exchange(context.role_name, {});
    if (name.empty()) name = role_in_words(context.roles.back());
    if (context.reporting) context.reporting->add_role(name, 4 * first, 4 * count);
    if (context.profiling) detail::begin_profiled_role(*context.profiling, name, first, count);
    {
      AuthorsCode authors;
      body(count == 1 ? u32(0) : own - first);
    }
    context.warp_of_role.reset();
    context.end_role();
    if (context.profiling) detail::end_profiled_role(*context.profiling);
    context.products.end_role();
    context.role = -1;
  };
  builder_.if_(mine, role, nullptr, where, "role");
}

void detail::meet_cluster() {
  barrier_cluster_arrive_relaxed();
  barrier_cluster_wait();
  TileContext::of(Builder::current()).unpublished_barriers = false;
}

void sync_cluster(Where where) {
  AtLine line(where);
  barrier_cluster_arrive();
  barrier_cluster_wait();
  TileContext::of(Builder::current()).unpublished_barriers = false;
}

void sync_threads(Where where) {
  AtLine line(where);
  TileContext& context = TileContext::of(Builder::current());
  if (context.role >= 0) {
    const TileContext::Role& role = context.roles[static_cast<size_t>(context.role)];
    throw Error(
        fmt::format("sync_threads: inside the role of {} ({}), it would wait for the threads of the other "
                    "roles too; use a k.named_barrier({}) for the threads of the role",
                    role_in_words(role), to_string(role.where), 128 * role.count));
  }
  detail::check_all_threads("sync_threads", static_cast<int>(Builder::current().signature().threads));
  bar_sync_all(0);
  context.unpublished_barriers = false;
}

void elect(const std::function<void()>& body, Where where) {
  AtLine line(where);
  Builder& builder = Builder::current();
  const TileContext& context = TileContext::of(builder);
  auto elected = [&] {
    AuthorsCode authors;
    body();
  };
  auto in_first_warp = [&] {
    detail::check_whole_warps("elect");
    builder.if_(elect_sync(0xffffffff), elected, nullptr, where, "elect");
  };
  if (context.warps && context.warps->count == 1) return in_first_warp();
  const u32 warp = warp_index();
  const pred is_first =
      context.warps ? warp == context.warps->first : (context.role >= 0 ? warp % 4 : warp) == 0;
  builder.if_(is_first, in_first_warp, nullptr, where, "elect");
}

u32 warp_uniform(u32 value, Where where) {
  AtLine line(where);
  return redux_sync_max_u32(value);
}

u32 warp_index(Where where) {
  AtLine line(where);
  Builder& builder = Builder::current();
  TileContext& context = TileContext::of(builder);
  if (context.warp_of_role) return *context.warp_of_role;
  if (!context.warp) builder.emit_at_entry([&] { context.warp.emplace(uniform_warp_index()); });
  return *context.warp;
}

}  // namespace ptxbuilder
