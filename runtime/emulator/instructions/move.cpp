// Executes mov between registers, to and from packed registers, and from clocks.
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

void execute_mov_predicate(Warp& w, const Unary& x, Lanes lanes) {
  w.set_predicate(x.d, lanes, *w.at<uint32_t>(x.a));
}

enum class ClockKind : uint8_t { clock, globaltimer };

struct ReadClock {
  Register d;
  uint8_t bytes;  // size of d
  ClockKind clock;
  bool high;  // whether d gets the upper half of the clock's 64 bits
};

void execute_clock(Warp& w, const ReadClock& x, Lanes lanes) {
  const uint64_t now =
      w.cluster().nanoseconds() + (x.clock == ClockKind::globaltimer ? uint64_t{1'000'000'000} : 0);
  for_lanes(lanes, [&](int k) {
    if (x.bytes == 8)
      w.at<uint64_t>(x.d)[k] = now;
    else
      w.at<uint32_t>(x.d)[k] = static_cast<uint32_t>(x.high ? now >> 32 : now);
  });
}

// A mov between a register and its parts, the lowest part first.
struct Pack {
  Register whole;
  RegisterList parts;
  uint8_t whole_bytes, part_bytes;
};

void execute_pack(Warp& w, const Pack& x, Lanes lanes) {
  std::byte* to = w.at<std::byte>(x.whole);
  const auto parts = w.listed(x.parts);
  const size_t whole = x.whole_bytes, part = x.part_bytes;
  for_lanes(lanes, [&](int lane) {
    std::byte packed[16] = {};
    for (size_t k = 0; k < parts.size(); ++k)
      std::memcpy(packed + k * part, w.at<std::byte>(parts[k]) + static_cast<size_t>(lane) * part, part);
    std::memcpy(to + static_cast<size_t>(lane) * whole, packed, whole);
  });
}
void execute_unpack(Warp& w, const Pack& x, Lanes lanes) {
  const std::byte* from = w.at<std::byte>(x.whole);
  const auto parts = w.listed(x.parts);
  const size_t whole = x.whole_bytes, part = x.part_bytes;
  for_lanes(lanes, [&](int lane) {
    std::byte packed[16];
    std::memcpy(packed, from + static_cast<size_t>(lane) * whole, whole);
    for (size_t k = 0; k < parts.size(); ++k)
      if (parts[k] != no_register)
        std::memcpy(w.at<std::byte>(parts[k]) + static_cast<size_t>(lane) * part, packed + k * part, part);
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
  const ptx_text::Operand& from = d.operand(1);
  struct Row {
    std::string_view name;
    ClockKind clock;
    bool high;
  };
  constexpr Row clocks[] = {{"%clock", ClockKind::clock, false},
                            {"%clock64", ClockKind::clock, false},
                            {"%clock_hi", ClockKind::clock, true},
                            {"%globaltimer", ClockKind::globaltimer, false},
                            {"%globaltimer_lo", ClockKind::globaltimer, false},
                            {"%globaltimer_hi", ClockKind::globaltimer, true}};
  for (auto [name, clock, high] : clocks)
    if (from.is_name(name)) {
      d.run<execute_clock>({d.destination(0, type), static_cast<uint8_t>(bytes(type)), clock, high});
      return true;
    }
  return false;
}

// A mov of the address of a variable in the frame.
struct FrameAddress {
  Register d;
  uint64_t offset;
  uint8_t bytes;
};

void execute_frame_address(Warp& w, const FrameAddress& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const uint64_t address = w.frame(lane) + x.offset;
    std::memcpy(w.at<std::byte>(x.d) + static_cast<ptrdiff_t>(lane) * x.bytes, &address, x.bytes);
  });
}

// mov.v2 and mov.v4, which move each part.
struct MoveParts {
  RegisterList d, a;
  uint8_t bytes;
};

void execute_mov_parts(Warp& w, const MoveParts& x, Lanes lanes) {
  const auto to = w.listed(x.d), from = w.listed(x.a);
  for_lanes(lanes, [&](int lane) {
    std::byte parts[4 * 8];
    const auto at = static_cast<size_t>(lane) * x.bytes;
    for (size_t k = 0; k < from.size(); ++k)
      std::memcpy(parts + k * x.bytes, w.at<std::byte>(from[k]) + at, x.bytes);
    for (size_t k = 0; k < to.size(); ++k)
      if (to[k] != no_register) std::memcpy(w.at<std::byte>(to[k]) + at, parts + k * x.bytes, x.bytes);
  });
}

void decode_mov_parts(Decode& d, size_t count) {
  const Type type = d.type();
  const auto to = Decode::parts(d.operand(0));
  auto from = Decode::parts(d.operand(1));
  // %tid and similar registers are vectors with four elements, and the last element is 0.
  ptx_text::Operand dimensions[4];
  constexpr std::string_view vectors[] = {"%tid",       "%ntid",       "%ctaid",         "%nctaid",
                                          "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"};
  if (const ptx_text::Operand& o = d.operand(1); count == 4 && std::ranges::count(vectors, o.text) > 0) {
    from.clear();
    for (size_t k = 0; k < 4; ++k) {
      dimensions[k] = o;
      constexpr const char* names[] = {".x", ".y", ".z"};
      if (k < 3) {
        dimensions[k].text += names[k];
      } else {
        dimensions[k].kind = ptx_text::Operand::Kind::number;
        dimensions[k].text = std::string("0");
      }
      from.push_back(&dimensions[k]);
    }
  }
  const RegisterList d_parts = d.list(d.sinks(to, type)), a_parts = d.list(d.sources(from, type));
  d.run<execute_mov_parts>({d_parts, a_parts, static_cast<uint8_t>(bytes(type))});
}

void decode_mov(Decode& d) {
  if (const std::string_view vector = d.one_of({"v2", "v4"}); !vector.empty())
    return decode_mov_parts(d, static_cast<size_t>(vector[1] - '0'));
  Type type = d.type();
  if (const auto offset = d.in_frame(d.operand(1)))
    return d.run<execute_frame_address>({d.destination(0, type), *offset, static_cast<uint8_t>(bytes(type))});
  if (type == Type::pred) {
    const Unary x{d.destination(0, type), d.source(1, type)};
    d.passes(Flow::copies, {x.a});
    return d.run<execute_mov_predicate>(x);
  }
  if (decode_clock(d, type)) return;
  const bool packs = d.operand(1).kind == ptx_text::Operand::Kind::vector,
             unpacks = d.operand(0).kind == ptx_text::Operand::Kind::vector;
  if (packs || unpacks) {
    auto parts = Decode::parts(d.operand(packs ? 1 : 0));
    Type part = part_type(d, type, parts.size());
    const std::vector<Register> named = packs ? d.sources(parts, part) : d.sinks(parts, part);
    const Pack x{packs ? d.destination(0, type) : d.source(1, type), d.list(named),
                 static_cast<uint8_t>(bytes(type)), static_cast<uint8_t>(bytes(part))};
    if (packs) {
      d.passes(Flow::copies, named);
      d.run<execute_pack>(x);
    } else {
      d.passes(Flow::copies, {x.whole});
      d.run<execute_unpack>(x);
    }
    return;
  }
  const Unary x{d.destination(0, type), d.source(1, type)};
  d.passes(Flow::copies, {x.a});
  switch (bytes(type)) {
    case 1:
      return d.run<unary<uint8_t, uint8_t, Same<uint8_t>>>(x);
    case 2:
      return d.run<unary<uint16_t, uint16_t, Same<uint16_t>>>(x);
    case 4:
      return d.run<unary<uint32_t, uint32_t, Same<uint32_t>>>(x);
    case 8:
      return d.run<unary<uint64_t, uint64_t, Same<uint64_t>>>(x);
    default:
      return d.run<unary<Wide, Wide, Same<Wide>>>(x);
  }
}

}  // namespace

void add_move(DecodeTable& t) { t["mov"] = decode_mov; }

}  // namespace ptxbuilder::runtime::emulator
