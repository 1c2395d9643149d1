// Adds regions and marks to a kernel. A profile shows these regions and marks on the timeline of each warp.
//
//   auto s = region("wait", [&] { return ring.acquire(); });
//   region("load", [&] { tma_load(sA[s], A, kt * 64, m); });
//   mark("tile", tile.row);
//
// If no ProfileScope is open when the kernel is constructed, regions emit only their bodies, and marks emit
// nothing.
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

// While a scope exists, kernels that are constructed on this thread are profiled. A profiled kernel has one
// more parameter at the end, the pointer "profile", and its signature().profile is set. If diverged lanes of
// a warp record events, the kernel also uses 128 more bytes of shared memory. runtime/profile.h allocates and
// reads the buffer to which "profile" points. A Kernel on a front end's function is never profiled.
class ProfileScope {
 public:
  // Reserves `records` units of 16 bytes per warp in global memory. The events of a body form a record of one
  // to three units, which holds up to eleven timestamps. Adjacent events share a timestamp, and a value needs
  // as much space as a timestamp. Records that no longer fit are counted but not stored. Throws Error unless
  // `records` is 32 to 2^20. With Detail::instructions, each wait, bulk copy and group of products is also a
  // region, named after its instruction, such as "wgmma.wait_group". The kernel then waits for products and
  // stores right after it has issued them, to record when they complete. These additional events and waits
  // slow the kernel down further.
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

// Passes `body` to `within`, which runs it, and returns the result of `body`.
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

// Holds the profiling state of a kernel that is being built.
class Profiling;
// Emits `loop`, a loop that waits. In a wait_region(), the wait is recorded if `has_to_wait` yields true on
// the device.
void record_wait(const std::function<pred()>& has_to_wait, const std::function<void()>& loop);
// Begins a profile if a ProfileScope is open; returns null otherwise.
std::shared_ptr<Profiling> begin_profiling(Builder& builder);
void begin_profiled_role(Profiling& profiling, std::string name, int first_warpgroup, int warpgroups);
void end_profiled_role(Profiling& profiling);
void end_profiling(Profiling& profiling);

}  // namespace detail

// Runs `body`, and returns the result of `body`. If the kernel is profiled, one lane of each warp that
// executes the region records when the body begins and ends. Regions may contain other regions. Throws Error
// if the name is empty.
template <std::invocable<> Body>
auto region(std::string_view name, Body&& body, Where where = Where::here()) -> std::invoke_result_t<Body> {
  return detail::result_within([&](const std::function<void()>& run) { detail::in_region(name, run, where); },
                               std::forward<Body>(body));
}

// Runs `body`, which waits for mbarriers or counters in global memory, and returns the result of `body`. If
// the kernel is profiled, each of these waits is a region. A wait whose condition already holds is not
// recorded and costs no time, so a loop that seldom waits is not slowed down. With Detail::instructions,
// wait_region() works like region(). Throws Error if the name is empty, or if the body contains no wait for
// an mbarrier or a counter.
template <std::invocable<> Body>
auto wait_region(std::string_view name, Body&& body, Where where = Where::here())
    -> std::invoke_result_t<Body> {
  return detail::result_within(
      [&](const std::function<void()>& run) { detail::in_wait_region(name, run, where); },
      std::forward<Body>(body));
}

// Records the value that the warp's first lane holds, together with the time. Throws Error if the name is
// empty.
void mark(std::string_view name, u32 value, Where where = Where::here());
void mark(std::string_view name, s32 value, Where where = Where::here());
void mark(std::string_view name, f32 value, Where where = Where::here());

// Record a span of time, such as a copy from issue to arrival. Unlike regions, spans need not be nested: a
// span may begin and end in different warps of the CTA, and in different iterations. `number` distinguishes
// spans that have the same name and are open at once. Both functions throw Error if the name is empty.
void begin_span(std::string_view name, u32 number, Where where = Where::here());
void end_span(std::string_view name, u32 number, Where where = Where::here());

// Sets the name of the role that is being emitted, such as "producer". Throws Error outside roles, and if the
// name is empty.
void name_role(std::string name, Where where = Where::here());

}  // namespace ptxbuilder
