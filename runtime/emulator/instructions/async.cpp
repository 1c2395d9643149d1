// Executes stores and reductions that signal an mbarrier (PTX ISA, st.async, red.async).
#include <fmt/format.h>

#include <array>

#include "runtime/emulator/instructions/copies.h"
#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

struct AsyncStore {
  AddressOperand a, mbar;
  RegisterList b;
  std::optional<Reduction> reduction;  // set for red.async
  Type type;
};

void execute_async(Warp& w, const AsyncStore& x, Lanes lanes) {
  // This was seen on an H100, where the same kernel is right if it is launched in clusters of one CTA.
  if (!w.grid().has_clusters())
    w.fail(Fault::operand,
           "the kernel runs without clusters, in which this is an illegal instruction on a GPU; give it "
           ".reqnctapercluster, or a launch with clusters");
  const auto b = w.listed(x.b);
  const auto width = static_cast<uint32_t>(bytes(x.type)), size = width * x.b.size;
  for_lanes(lanes, [&](int lane) {
    const uint64_t address = w.address(x.a, lane);
    if (address % size)
      w.fail(Fault::misaligned, fmt::format("the address {:#x} is not a multiple of {} B", address, size),
             lane);
    Landing l;
    w.place(address, size, Space::cluster, lane, l.cta, l.offset);
    l.barrier = &mbarrier_at(w, w.address(x.mbar, lane), lane);
    if (l.barrier->cta != l.cta)
      w.fail(Fault::operand, "the mbarrier and the destination are in different CTAs", lane);
    l.phase = l.barrier->phase;
    touch_landing(w, l, size, false, x.reduction.has_value(), "this writes");
    begin_tx(*l.barrier, size);
    std::array<std::byte, 32> data;
    for (uint32_t k = 0; k < x.b.size; ++k)
      std::memcpy(data.data() + k * width, w.at<std::byte>(b[k]) + static_cast<uint32_t>(lane) * width,
                  width);
    w.post([&w, &x, l, data, size] {
      std::byte* place = l.cta->shared.data() + l.offset;
      if (x.reduction)
        reduce_into(place, data.data(), size, *x.reduction, x.type);
      else
        std::memcpy(place, data.data(), size);
      finish_load(w, {l}, size);
    });
  });
}

void decode_async(Decode& d, bool reduces) {
  std::optional<Reduction> reduction;
  if (reduces) reduction = take_reduction(d);
  const Type type = d.type();
  d.run<execute_async>({d.address(d["a"]), d.address(d["bar"]),
                        d.list(d.sources(Decode::parts(d["b"]), type)), reduction, type});
}

}  // namespace

void add_async(DecodeTable& t) {
  t["st.async"] = [](Decode& d) { decode_async(d, false); };
  t["red.async"] = [](Decode& d) { decode_async(d, true); };
}

}  // namespace ptxbuilder::runtime::emulator
