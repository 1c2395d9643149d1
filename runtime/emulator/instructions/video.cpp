// Executes video instructions, i.e. arithmetic on bytes and half-words of registers (PTX ISA, "Scalar Video
// Instructions", "SIMD Video Instructions").
#include <algorithm>
#include <charconv>

#include "runtime/emulator/instructions/handlers.h"

namespace ptxbuilder::runtime::emulator {
namespace {

enum class VideoOp : uint8_t { add, sub, absdiff, min, max, average, shl, shr, mad, set };
enum class Accumulate : uint8_t { none, add, min, max };
enum class Order : uint8_t { eq, ne, lt, le, gt, ge };

// The parts of a register that an operand such as %r1.b2 or %r1.h10 selects. `parts` are the numbers of bytes
// or half-words, counted from the lowest. A width of 4 selects the whole register.
struct Selection {
  uint8_t width = 4;  // bytes per part
  uint8_t count = 0;  // number of parts; 0 if the operand selects none
  uint8_t parts[4] = {};
};

struct Video {
  Register d, a, b, c;  // c may be no_register
  Selection of_d, of_a, of_b;
  VideoOp op;
  Accumulate accumulate;
  Order order;    // for vset
  uint8_t shift;  // for vmad: 7, 15 or 0
  bool d_signed, a_signed, b_signed, saturate, wraps, plus_one, negate_product, negate_c;
};

int64_t part(uint64_t from, unsigned width, unsigned number, bool is_signed_part) {
  const unsigned bits = 8 * width;
  const uint64_t value = from >> (number * bits) & ((uint64_t{1} << bits) - 1);
  return is_signed_part && value >> (bits - 1) ? static_cast<int64_t>(value) - (int64_t{1} << bits)
                                               : static_cast<int64_t>(value);
}

int64_t saturated(int64_t x, unsigned width, bool is_signed_result) {
  const int64_t span = int64_t{1} << (8 * width);
  return is_signed_result ? std::clamp(x, -span / 2, span / 2 - 1) : std::clamp<int64_t>(x, 0, span - 1);
}

bool holds(Order order, int64_t a, int64_t b) {
  switch (order) {
    case Order::eq:
      return a == b;
    case Order::ne:
      return a != b;
    case Order::lt:
      return a < b;
    case Order::le:
      return a <= b;
    case Order::gt:
      return a > b;
    default:
      return a >= b;
  }
}

int64_t result_of(const Video& x, int64_t a, int64_t b) {
  switch (x.op) {
    case VideoOp::add:
      return a + b;
    case VideoOp::sub:
      return a - b;
    case VideoOp::absdiff:
      return a < b ? b - a : a - b;
    case VideoOp::min:
      return std::min(a, b);
    case VideoOp::max:
      return std::max(a, b);
    case VideoOp::average:
      return (a + b + (a + b >= 0)) >> 1;
    case VideoOp::shl:
    case VideoOp::shr: {
      const auto by = x.wraps ? b & 31 : std::min<int64_t>(static_cast<uint32_t>(b), 32);
      return x.op == VideoOp::shl ? static_cast<int64_t>(static_cast<uint64_t>(a) << by) : a >> by;
    }
    case VideoOp::set:
      return holds(x.order, a, b);
    default:
      return a * b;
  }
}

int64_t accumulated(const Video& x, int64_t value, int64_t c) {
  switch (x.accumulate) {
    case Accumulate::add:
      return value + c;
    case Accumulate::min:
      return std::min(value, c);
    case Accumulate::max:
      return std::max(value, c);
    default:
      return value;
  }
}

// Returns the result of a scalar instruction, whose operands are whole registers or selected parts.
uint32_t scalar(const Video& x, uint32_t a, uint32_t b, uint32_t c) {
  const int64_t of_a = part(a, x.of_a.width, x.of_a.parts[0], x.a_signed),
                of_b = part(b, x.of_b.width, x.of_b.parts[0], x.b_signed),
                of_c =
                    part(c, 4, 0, x.op == VideoOp::mad ? x.a_signed || x.b_signed || x.negate_c : x.d_signed);
  int64_t value = result_of(x, of_a, of_b);
  if (x.op == VideoOp::mad) {
    value = (x.negate_product ? -value : value) + (x.negate_c ? -of_c : of_c) + x.plus_one;
    value >>= x.shift;
  }
  if (x.saturate) value = saturated(value, x.of_d.width, x.d_signed);
  if (x.of_d.count) {
    const unsigned bits = 8u * x.of_d.width, at = bits * x.of_d.parts[0];
    const auto mask = static_cast<uint32_t>(((uint64_t{1} << bits) - 1) << at);
    return (c & ~mask) | (static_cast<uint32_t>(static_cast<uint64_t>(value) << at) & mask);
  }
  if (x.accumulate == Accumulate::none) return static_cast<uint32_t>(value);
  return static_cast<uint32_t>(accumulated(x, part(static_cast<uint32_t>(value), 4, 0, x.d_signed), of_c));
}

// Returns a word with a result in each part. a and b select their parts from {b, a}.
uint32_t simd(const Video& x, uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t both = uint64_t{b} << 32 | a;
  const unsigned width = x.of_a.width, count = 4 / width, bits = 8 * width;
  uint32_t merged = c;
  int64_t sum = part(c, 4, 0, x.d_signed);
  for (unsigned k = 0; k < count; ++k) {
    const uint8_t* chosen = std::find(x.of_d.parts, x.of_d.parts + x.of_d.count, k);
    if (x.of_d.count && chosen == x.of_d.parts + x.of_d.count) continue;
    int64_t value = result_of(x, part(both, width, x.of_a.parts[k], x.a_signed),
                              part(both, width, x.of_b.parts[k], x.b_signed));
    if (x.saturate) value = saturated(value, width, x.d_signed);
    sum += value;
    const uint32_t mask = ((1u << bits) - 1) << (bits * k);
    merged = (merged & ~mask) | (static_cast<uint32_t>(static_cast<uint64_t>(value) << (bits * k)) & mask);
  }
  return x.accumulate == Accumulate::add ? static_cast<uint32_t>(sum) : merged;
}

template <bool in_parts>
void execute_video(Warp& w, const Video& x, Lanes lanes) {
  const uint32_t *a = w.at<uint32_t>(x.a), *b = w.at<uint32_t>(x.b);
  const uint32_t* c = x.c == no_register ? a : w.at<uint32_t>(x.c);
  uint32_t* d = w.at<uint32_t>(x.d);
  for_lanes(lanes, [&](int k) { d[k] = in_parts ? simd(x, a[k], b[k], c[k]) : scalar(x, a[k], b[k], c[k]); });
}

// Removes a selection such as .b0 from the operand's name and returns it.
Selection take_selection(Decode& d, ptx_text::Operand& o) {
  Selection s;
  const size_t dot = o.text.find_last_of('.');
  if (o.kind != ptx_text::Operand::Kind::name || dot == std::string::npos || dot + 2 > o.text.size())
    return s;
  const char kind = o.text[dot + 1];
  const std::string digits = o.text.substr(dot + 2);
  if ((kind != 'b' && kind != 'h') || digits.empty() || digits.size() > 4) return s;
  s.width = kind == 'b' ? 1 : 2;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (*digit < '0' || *digit > '7') d.refuse(o.text + " selects no part of a register");
    s.parts[s.count++] = static_cast<uint8_t>(*digit - '0');
  }
  o.text.resize(dot);
  return s;
}

Accumulate take_accumulate(Decode& d) {
  const auto named = d.one_of({"add", "min", "max"});
  return named == "add"   ? Accumulate::add
         : named == "min" ? Accumulate::min
         : named == "max" ? Accumulate::max
                          : Accumulate::none;
}

// Checks the selection of a SIMD operand, or sets it to the default if it is empty.
void complete(Decode& d, Selection& s, unsigned width, unsigned first, unsigned most) {
  if (s.count == 0) {
    s.count = static_cast<uint8_t>(4 / width);
    for (unsigned k = 0; k < s.count; ++k) s.parts[k] = static_cast<uint8_t>(first + k);
  } else if (s.width != width || s.count != 4 / width ||
             *std::max_element(s.parts, s.parts + s.count) >= most) {
    d.refuse("a selection does not fit the instruction");
  }
  s.width = static_cast<uint8_t>(width);
}

template <VideoOp op>
void decode_video(Decode& d) {
  const std::string_view name = std::string_view(d.text.opcode).substr(0, d.text.opcode.find('.'));
  const unsigned width = name.back() == '2' ? 2 : name.back() == '4' ? 1 : 4;
  Video x{};
  x.op = op;
  if (op == VideoOp::set) {
    constexpr std::pair<std::string_view, Order> orders[] = {{"eq", Order::eq}, {"ne", Order::ne},
                                                             {"lt", Order::lt}, {"le", Order::le},
                                                             {"gt", Order::gt}, {"ge", Order::ge}};
    const auto* named = std::ranges::find_if(orders, [&](const auto& o) { return d.has(o.first); });
    x.order = named->second;
  }
  x.saturate = d.has("sat");
  x.wraps = d.one_of({"clamp", "wrap"}) == "wrap";
  x.plus_one = d.has("po");
  x.shift = d.has("shr7") ? 7 : d.has("shr15") ? 15 : 0;
  x.accumulate = take_accumulate(d);
  constexpr size_t a = op == VideoOp::set ? 0 : 1;  // the mnemonic of vset does not specify the type of d
  x.d_signed = a == 1 && is_signed(d.type(0));
  x.a_signed = is_signed(d.type(a)), x.b_signed = is_signed(d.type(a + 1));
  std::vector<ptx_text::Operand> operands = d.text.operands;
  for (size_t k = op == VideoOp::mad ? 1 : operands.size(); k < operands.size(); ++k)
    if (operands[k].kind == ptx_text::Operand::Kind::unary && operands[k].text == "-") {
      (k == 3 ? x.negate_c : x.negate_product) ^= true;
      operands[k] = ptx_text::Operand(operands[k].parts[0]);
    }
  x.of_d = take_selection(d, operands[0]);
  x.of_a = take_selection(d, operands[1]);
  x.of_b = take_selection(d, operands[2]);
  if (width != 4) {
    complete(d, x.of_a, width, 0, 8 / width);
    complete(d, x.of_b, width, 4 / width, 8 / width);
  } else if ((x.of_d.count || x.accumulate != Accumulate::none || op == VideoOp::mad) !=
             (operands.size() == 4)) {
    d.refuse("a fourth operand goes with a selection of d, or with a second operation");
  }
  x.d = d.destination(operands[0], Type::b32);
  x.a = d.source(operands[1], Type::b32);
  x.b = d.source(operands[2], Type::b32);
  x.c = operands.size() == 4 ? d.source(operands[3], Type::b32) : no_register;
  width == 4 ? d.run<execute_video<false>>(x) : d.run<execute_video<true>>(x);
}

}  // namespace

void add_video(DecodeTable& t) {
  for (std::string_view name : {"vadd", "vadd2", "vadd4"}) t[name] = decode_video<VideoOp::add>;
  for (std::string_view name : {"vsub", "vsub2", "vsub4"}) t[name] = decode_video<VideoOp::sub>;
  for (std::string_view name : {"vabsdiff", "vabsdiff2", "vabsdiff4"})
    t[name] = decode_video<VideoOp::absdiff>;
  for (std::string_view name : {"vmin", "vmin2", "vmin4"}) t[name] = decode_video<VideoOp::min>;
  for (std::string_view name : {"vmax", "vmax2", "vmax4"}) t[name] = decode_video<VideoOp::max>;
  for (std::string_view name : {"vavrg2", "vavrg4"}) t[name] = decode_video<VideoOp::average>;
  for (std::string_view name : {"vset", "vset2", "vset4"}) t[name] = decode_video<VideoOp::set>;
  t["vshl"] = decode_video<VideoOp::shl>;
  t["vshr"] = decode_video<VideoOp::shr>;
  t["vmad"] = decode_video<VideoOp::mad>;
}

}  // namespace ptxbuilder::runtime::emulator
