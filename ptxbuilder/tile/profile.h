// Regions and marks of a kernel, which a profile shows on the timeline of each warp.
//
//   auto s = region("wait", [&] { return ring.acquire(); });
//   region("load", [&] { tma_load(sA[s], A, kt * 64, m); });
//   mark("tile", tile.row);
//
// Unless the kernel is built while a ProfileScope is open, they emit only their body.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// Kernels that are begun on this thread while a scope lives are profiled. Such a kernel has one more
// parameter at the end, the pointer "profile", sets signature().profile and, if diverged lanes of a warp
// record, uses 128 more bytes of shared memory; runtime/profile.h makes and reads the parameter's buffer. A
// Kernel on a front end's function is never profiled.
class ProfileScope {
 public:
  // A warp has room for `records` units of 16 bytes in global memory. The events of a body form a record of
  // up to three units with up to eleven times; adjacent events share one time, and a value needs the room of
  // a time. Records beyond the limit are only counted. Throws Error unless `records` is 32 to 2^20. With
  // Detail::instructions, each wait, bulk copy and group of products is a region too, named after its
  // instruction, such as "wgmma.wait_group", and the kernel waits for products and stores right after their
  // issue, to show when they are done. Such a profile slows the kernel down more, and has more events.
  enum class Detail : uint8_t { regions, instructions };
  explicit ProfileScope(uint32_t records = 1024, Detail detail = Detail::regions,
                        Where where = Where::here());
  ~ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  uint32_t outer_records_;
  Detail outer_detail_;
};

namespace detail {

void in_region(std::string_view name, const std::function<void()>& body, Where where);
void in_wait_region(std::string_view name, const std::function<void()>& body, Where where);

// Runs `body`, which `within` receives, and returns what it returns.
template <std::invocable<> Body>
auto result_within(const std::function<void(const std::function<void()>&)>& within, Body&& body)
    -> std::invoke_result_t<Body> {
  using Result = std::invoke_result_t<Body>;
  if constexpr (std::is_void_v<Result>) {
    within(std::forward<Body>(body));
  } else if constexpr (std::is_reference_v<Result>) {
    std::remove_reference_t<Result>* result = nullptr;
    within([&] { result = std::addressof(body()); });
    return static_cast<Result>(*result);
  } else {
    std::optional<Result> result;
    within([&] { result.emplace(body()); });
    return *std::move(result);
  }
}

// The state of the profile of a kernel that is being built.
class Profiling;
// Emits a wait, `loop`, which a wait_region records where `has_to_wait` yields true.
void record_wait(const std::function<pred()>& has_to_wait, const std::function<void()>& loop);
// Begins a profile if a scope is open; returns null otherwise.
std::shared_ptr<Profiling> begin_profiling(Builder& builder);
void begin_profiled_role(Profiling& profiling, std::string name, int first_warpgroup, int warpgroups);
void end_profiled_role(Profiling& profiling);
void end_profiling(Profiling& profiling);

}  // namespace detail

// Runs `body`, and returns what it returns. If the kernel is profiled, one lane of each warp that runs this
// records when the body begins and ends; regions may contain others. Throws Error when the name is empty.
template <std::invocable<> Body>
auto region(std::string_view name, Body&& body, Where where = Where::here()) -> std::invoke_result_t<Body> {
  return detail::result_within([&](const std::function<void()>& run) { detail::in_region(name, run, where); },
                               std::forward<Body>(body));
}

// Runs `body`, which waits for mbarriers or counters in global memory, and returns what it returns. If the
// kernel is profiled, each of these waits is a region, unless the wait is already over when it begins: such a
// wait is not recorded and costs no time, so a loop that seldom waits is not slowed down. With
// Detail::instructions this is region(). Throws Error when the name is empty, and when nothing in the body
// waits in this way.
template <std::invocable<> Body>
auto wait_region(std::string_view name, Body&& body, Where where = Where::here())
    -> std::invoke_result_t<Body> {
  return detail::result_within(
      [&](const std::function<void()>& run) { detail::in_wait_region(name, run, where); },
      std::forward<Body>(body));
}

// Records the value in the warp's first lane, with the time. Throws Error as region() does.
void mark(std::string_view name, u32 value, Where where = Where::here());
void mark(std::string_view name, s32 value, Where where = Where::here());
void mark(std::string_view name, f32 value, Where where = Where::here());

// Record a span of time that does not need to nest, such as a copy from issue to arrival: it may begin and
// end in any warps of the CTA and in any iterations. `number` distinguishes spans with the same name that are
// open at once. Throws Error as region() does.
void begin_span(std::string_view name, u32 number, Where where = Where::here());
void end_span(std::string_view name, u32 number, Where where = Where::here());

// Names the role being emitted, such as "producer". Throws Error outside of roles, and for an empty name.
void name_role(std::string name, Where where = Where::here());

}  // namespace ptxbuilder
