// Stores and reductions that signal an mbarrier (PTX ISA, st.async, red.async).
#include <fmt/format.h>

#include <array>

#include "runtime/emulator/instructions/copies.h"
#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// list: barrier address, then the data registers; r[5] base. mode: 0 Reduction, 1 Type, 2 vector length,
// 3 whether it reduces, 7 base width.
void execute_async(Warp& w, const Instruction& i, Lanes lanes) {
  const auto type = static_cast<Type>(i.mode[1]);
  const auto width = static_cast<uint32_t>(bytes(type)), size = width * i.mode[2];
  const bool reduces = i.mode[3];
  for_lanes(lanes, [&](int lane) {
    const uint64_t address = w.address(i.r[5], i.mode[7], i.immediate, lane);
    if (address % size)
      w.fail(Fault::misaligned, fmt::format("the address {:#x} is not a multiple of {} B", address, size),
             lane);
    Landing l;
    w.place(address, size, Space::cluster, lane, l.cta, l.offset);
    l.barrier = &mbarrier_at(w, w.listed_address(i, 0, lane), lane, false);
    if (l.barrier->cta != l.cta)
      w.fail(Fault::operand, "the mbarrier and the destination are in different CTAs", lane);
    l.phase = l.barrier->phase;
    touch_landing(w, l, size, false, reduces, "this writes");
    begin_tx(*l.barrier, size);
    std::array<std::byte, 32> data;
    for (uint32_t k = 0; k < i.mode[2]; ++k)
      std::memcpy(data.data() + k * width,
                  w.at<std::byte>(w.listed(i, 3 + k)) + static_cast<uint32_t>(lane) * width, width);
    const auto op = static_cast<Reduction>(i.mode[0]);
    w.cluster().post([&w, &i, l, data, size, reduces, op, type] {
      w.instruction = &i;
      std::byte* place = l.cta->shared.data() + l.offset;
      if (reduces)
        reduce_into(place, data.data(), size, op, type);
      else
        std::memcpy(place, data.data(), size);
      finish_load(w, {l}, size);
    });
  });
}

void decode_async(Decode& d, bool reduces) {
  d.take_any({"weak", "relaxed", "cluster", "shared::cluster"});
  if (!d.take("mbarrier::complete_tx::bytes"))
    d.refuse("it signals an mbarrier in shared memory of the cluster; other forms are for later targets");
  std::string_view vector = d.take_one({"v2", "v4"});
  if (reduces) d.out.mode[0] = static_cast<uint8_t>(take_reduction(d));
  const Type type = d.take_type();
  d.done();
  d.expect(3, 3);
  if (bytes(type) != 4 && bytes(type) != 8) d.refuse("it takes types of 32 and 64 bits");
  if (reduces) require_reduction(d, static_cast<Reduction>(d.out.mode[0]), type, false);
  const AddressOperand a = d.address(d.operand(0));
  d.list_address(d.address(d.operand(2)));
  auto parts = Decode::parts(d.operand(1));
  if (parts.size() != (vector.empty() ? 1u : static_cast<size_t>(vector[1] - '0')))
    d.refuse("the data do not match the vector length");
  for (const ptx::Operand* o : parts) d.list(d.source(*o, type));
  d.out.mode[1] = static_cast<uint8_t>(type);
  d.out.mode[2] = static_cast<uint8_t>(parts.size());
  d.out.mode[3] = reduces;
  d.out.mode[7] = a.base_bytes;
  d.out.r[5] = a.base;
  d.out.immediate = a.displacement;
  d.out.execute = execute_async;
}

}  // namespace

void add_async(DecodeTable& t) {
  t["st.async"] = [](Decode& d) { decode_async(d, false); };
  t["red.async"] = [](Decode& d) { decode_async(d, true); };
}

}  // namespace ptxbuilder::runtime::emulator
