// mov: between registers, into and out of packed registers, and from clocks.
#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

template <class T>
struct Same {
  T operator()(T x) const { return x; }
};

struct Wide {
  uint64_t low, high;
};

void execute_mov_predicate(Warp& w, const Instruction& i, Lanes lanes) {
  uint32_t& p = *w.at<uint32_t>(i.r[0]);
  p = (p & ~lanes) | (*w.at<uint32_t>(i.r[1]) & lanes);
}

void execute_clock(Warp& w, const Instruction& i, Lanes lanes) {
  const uint64_t now = i.mode[0] == 2 ? w.cluster().nanoseconds() + 1'000'000'000 : w.cluster().nanoseconds();
  for_lanes(lanes, [&](int k) {
    if (i.mode[1] == 8)
      w.at<uint64_t>(i.r[0])[k] = now;
    else
      w.at<uint32_t>(i.r[0])[k] = static_cast<uint32_t>(i.mode[0] == 3 ? now >> 32 : now);
  });
}

// r[0] is the packed register of mode[0] bytes, the list its parts from the lowest, of mode[1] bytes each.
void execute_pack(Warp& w, const Instruction& i, Lanes lanes) {
  std::byte* to = w.at<std::byte>(i.r[0]);
  const size_t whole = i.mode[0], part = i.mode[1];
  for_lanes(lanes, [&](int lane) {
    std::byte packed[16] = {};
    for (uint32_t k = 0; k < i.list_size; ++k)
      std::memcpy(packed + k * part, w.at<std::byte>(w.listed(i, k)) + static_cast<size_t>(lane) * part,
                  part);
    std::memcpy(to + static_cast<size_t>(lane) * whole, packed, whole);
  });
}
void execute_unpack(Warp& w, const Instruction& i, Lanes lanes) {
  const std::byte* from = w.at<std::byte>(i.r[0]);
  const size_t whole = i.mode[0], part = i.mode[1];
  for_lanes(lanes, [&](int lane) {
    std::byte packed[16];
    std::memcpy(packed, from + static_cast<size_t>(lane) * whole, whole);
    for (uint32_t k = 0; k < i.list_size; ++k)
      if (uint32_t r = w.listed(i, k); r != no_register)
        std::memcpy(w.at<std::byte>(r) + static_cast<size_t>(lane) * part, packed + k * part, part);
  });
}

Type part_type(Decode& d, Type whole, size_t parts) {
  const int width = parts == 0 ? 0 : bytes(whole) / static_cast<int>(parts);
  switch (width) {
    case 1:
      return Type::b8;
    case 2:
      return Type::b16;
    case 4:
      return Type::b32;
    case 8:
      return Type::b64;
    default:
      d.refuse("the vector does not divide the register");
  }
}

bool decode_clock(Decode& d, Type type) {
  const ptx::Operand& from = d.operand(1);
  constexpr std::pair<std::string_view, uint8_t> clocks[] = {{"%clock", 0},          {"%clock64", 0},
                                                             {"%clock_hi", 3},       {"%globaltimer", 2},
                                                             {"%globaltimer_lo", 2}, {"%globaltimer_hi", 3}};
  for (auto [name, kind] : clocks)
    if (from.is_name(name)) {
      d.out.r[0] = d.destination(0, type);
      d.out.mode[0] = kind;
      d.out.mode[1] = static_cast<uint8_t>(bytes(type));
      d.out.execute = execute_clock;
      return true;
    }
  return false;
}

void decode_mov(Decode& d) {
  Type type = d.take_type();
  d.done();
  d.expect(2, 2);
  if (type == Type::pred) {
    d.out.r[0] = d.destination(0, type);
    d.out.r[1] = d.source(1, type);
    d.passes(Flow::copies, {d.out.r[1]});
    d.out.execute = execute_mov_predicate;
    return;
  }
  if (decode_clock(d, type)) return;
  const bool packs = d.operand(1).kind == ptx::Operand::Kind::vector,
             unpacks = d.operand(0).kind == ptx::Operand::Kind::vector;
  if (packs || unpacks) {
    auto parts = Decode::parts(d.operand(packs ? 1 : 0));
    Type part = part_type(d, type, parts.size());
    for (const ptx::Operand* o : parts) d.list(packs ? d.source(*o, part) : d.sink(*o, part));
    d.out.r[0] = packs ? d.destination(0, type) : d.source(1, type);
    if (packs)
      d.passes_list(Flow::copies);
    else
      d.passes(Flow::copies, {d.out.r[0]});
    d.out.mode[0] = static_cast<uint8_t>(bytes(type));
    d.out.mode[1] = static_cast<uint8_t>(bytes(part));
    d.out.execute = packs ? execute_pack : execute_unpack;
    return;
  }
  d.out.r[0] = d.destination(0, type);
  d.out.r[1] = d.source(1, type);
  d.passes(Flow::copies, {d.out.r[1]});
  switch (bytes(type)) {
    case 1:
      d.out.execute = unary<uint8_t, uint8_t, Same<uint8_t>>;
      break;
    case 2:
      d.out.execute = unary<uint16_t, uint16_t, Same<uint16_t>>;
      break;
    case 4:
      d.out.execute = unary<uint32_t, uint32_t, Same<uint32_t>>;
      break;
    case 8:
      d.out.execute = unary<uint64_t, uint64_t, Same<uint64_t>>;
      break;
    default:
      d.out.execute = unary<Wide, Wide, Same<Wide>>;
  }
}

}  // namespace

void add_move(DecodeTable& t) { t["mov"] = decode_mov; }

}  // namespace ptxbuilder::runtime::emulator
