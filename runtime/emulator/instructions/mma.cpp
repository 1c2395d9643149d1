// Executes mma and mma.sp (PTX ISA, "Multiply-and-Accumulate Instruction"), in all shapes and types that
// sm_90 supports.
#include <fmt/format.h>

#include <bit>
#include <cfenv>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/matmul.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {
namespace {

enum class Combine : uint8_t { multiply, exclusive_or, conjunction };

// The kind and the number of bits of the elements of A or B.
struct Element {
  enum class Kind : uint8_t { real, whole, bit, wide } kind = Kind::real;
  uint8_t bits = 0;
  bool is_signed = false;
  Type type = Type::none;  // for real elements, and for elements of one byte
};

constexpr std::pair<std::string_view, Element> elements[] = {
    {"f16", {Element::Kind::real, 16, true, Type::f16}},
    {"bf16", {Element::Kind::real, 16, true, Type::bf16}},
    {"tf32", {Element::Kind::real, 32, true, Type::tf32}},
    {"e4m3", {Element::Kind::real, 8, true, Type::e4m3}},
    {"e5m2", {Element::Kind::real, 8, true, Type::e5m2}},
    {"s8", {Element::Kind::whole, 8, true, Type::s8}},
    {"u8", {Element::Kind::whole, 8, false, Type::u8}},
    {"s4", {Element::Kind::whole, 4, true}},
    {"u4", {Element::Kind::whole, 4, false}},
    {"b1", {Element::Kind::bit, 1, false}},
    {"f64", {Element::Kind::wide, 64, true, Type::f64}}};

struct Mma {
  RegisterList d, a, b, c;
  Register metadata;  // metadata of a sparse A
  uint16_t k;         // columns of A
  uint8_t m;          // rows of A: 8 or 16
  uint8_t selector;
  Element of_a, of_b;
  Type d_type, c_type;
  Combine combine;
  Rounding rounding;
  bool satfinite, ordered;

  bool sparse() const { return metadata != no_register; }
};

// Calls f(row, column, bits) for each element of a fragment. A register of lane l holds 32 bits of row l / 4,
// or one element of 64 bits. The four lanes of a row hold consecutive pieces of the row. If the matrix has 16
// rows, every second register belongs to row l / 4 + 8.
template <class F>
void for_each_element(Warp& w, RegisterList fragment, Element element, int rows, F f) {
  const auto registers = w.listed(fragment);
  const int each = element.bits == 64 ? 1 : 32 / element.bits;  // elements per register
  const uint32_t mask = element.bits >= 32 ? ~0u : (1u << element.bits) - 1;
  for (size_t r = 0; r < registers.size(); ++r)
    for (int lane = 0; lane < 32; ++lane) {
      const int n = static_cast<int>(r), step = rows == 16 ? n / 2 : n;
      const int row = lane / 4 + (rows == 16 ? n % 2 * 8 : 0);
      for (int e = 0; e < each; ++e) {
        const int column = (4 * step + lane % 4) * each + e;
        if (element.bits == 64)
          f(row, column, w.at<uint64_t>(registers[r])[lane]);
        else
          f(row, column, uint64_t{w.at<uint32_t>(registers[r])[lane] >> (e * element.bits) & mask});
      }
    }
}

float real(Element e, uint64_t bits) {
  return element_type(e.type).real(reinterpret_cast<const std::byte*>(&bits));
}

int32_t whole(Element e, uint64_t bits) {
  const auto value = static_cast<int32_t>(bits);
  const int unused = 32 - e.bits;
  return e.is_signed ? value << unused >> unused : value;
}

// Reads A [m x k] in row-major order, with zeros where a sparse A stores no element, and B [k x 8].
template <class T, class Value>
void read_operands(Warp& w, const Mma& x, T* a, T* b, Value value) {
  const Sparsity sparsity{x.of_a.bits, x.k, x.selector};
  const uint32_t* metadata = x.sparse() ? w.at<uint32_t>(x.metadata) : nullptr;
  if (metadata)
    if (const std::string rule = sparsity.refusal(metadata, x.ordered); !rule.empty())
      w.fail(Fault::operand, rule);
  std::fill_n(a, x.m * x.k, T{});
  for_each_element(w, x.a, x.of_a, x.m, [&](int row, int column, uint64_t bits) {
    const int at = x.sparse() ? sparsity.column(row, column, metadata) : column;
    a[row * x.k + at] = value(x.of_a, bits);
  });
  for_each_element(w, x.b, x.of_b, 8,
                   [&](int column, int row, uint64_t bits) { b[row * 8 + column] = value(x.of_b, bits); });
}

// Calls f(register, lane, row, column) for each element of C and D.
template <class F>
void for_each_sum(int m, F f) {
  for (int r = 0; r < m / 4; ++r)
    for (int lane = 0; lane < 32; ++lane) f(r, lane, lane / 4 + 8 * (r / 2), lane % 4 * 2 + r % 2);
}

// Tracks undefined values. An element of d is undefined if its row of a, its column of b or its element of c
// is undefined. Registers of a alternate between the upper and lower rows, and those of c and d do so in the
// same way. Two f16 elements in one register count as undefined only if both are.
void follow_mma(Warp& w, const Mma& x) {
  if (!w.undefined.follows()) return;
  const auto a = w.listed(x.a), b = w.listed(x.b), c = w.listed(x.c), d = w.listed(x.d);
  Lanes rows[2] = {}, columns = 0;  // one bit per row and column, indexed by lane / 4
  Register from = no_register;
  auto note = [&](Register r, Lanes& eighths) {
    const Lanes undefined = w.undefined.in(r);
    for (int k = 0; k < 8; ++k)
      if (undefined >> (4 * k) & 15) eighths |= Lanes{1} << k;
    if (undefined) from = r;
  };
  for (size_t k = 0; k < a.size(); ++k) note(a[k], rows[x.m == 16 ? k % 2 : 0]);
  for (Register r : b) note(r, columns);
  Lanes results[4] = {};  // stored separately, because d and c may be the same registers
  for (size_t k = 0; k < d.size(); ++k) {
    const bool half = x.d_type == Type::f16;
    const size_t lower = x.m == 8 ? 0 : half ? k : k / 2;
    Lanes& result = results[k];
    result = c.size() == d.size() ? w.undefined.in(c[k]) : 0;
    if (result) from = c[k];
    for (int lane = 0; lane < 32; ++lane) {
      const int column = lane % 4 * 2;
      const bool is_undefined =
          (rows[lower] >> (lane / 4) & 1) != 0 ||
          (half ? (columns >> column & 3) == 3 : (columns >> (column + static_cast<int>(k % 2)) & 1) != 0);
      result |= static_cast<Lanes>(is_undefined) << lane;
    }
  }
  const Origin origin = from == no_register ? Origin{} : w.undefined.origin_of(from);
  for (size_t k = 0; k < d.size(); ++k) w.undefined.set(d[k], all_lanes, results[k], origin);
}

void multiply_whole(Warp& w, const Mma& x) {
  int32_t a[16 * 256], b[256 * 8];
  read_operands(w, x, a, b, whole);
  const Register *to = w.listed(x.d).data(), *from = w.listed(x.c).data();
  int32_t sums[4][32];
  for_each_sum(x.m, [&](int r, int lane, int row, int column) {
    int64_t sum = w.at<int32_t>(from[r])[lane];
    for (int k = 0; k < x.k; ++k) {
      const int32_t left = a[row * x.k + k], right = b[k * 8 + column];
      sum += x.combine == Combine::multiply       ? left * right
             : x.combine == Combine::exclusive_or ? left ^ right
                                                  : left & right;
    }
    if (x.satfinite) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
    sums[r][lane] = static_cast<int32_t>(sum);
  });
  for (int r = 0; r < x.m / 4; ++r) std::memcpy(w.at<int32_t>(to[r]), sums[r], sizeof sums[r]);
}

void multiply_real(Warp& w, const Mma& x) {
  float a[16 * 64], b[64 * 8], c[16 * 8];
  read_operands(w, x, a, b, real);
  const bool d_half = x.d_type == Type::f16, c_half = x.c_type == Type::f16;
  const Register *to = w.listed(x.d).data(), *from = w.listed(x.c).data();
  accumulator_from(c, 8, [&](int r, int lane) {
    return c_half ? from_f16(w.at<uint16_t>(from[r / 2])[2 * lane + r % 2]) : w.at<float>(from[r])[lane];
  });
  multiply(a, b, c, 8, x.k);
  accumulator_to(c, 8, [&](int r, int lane, float sum) {
    if (d_half)
      w.at<uint16_t>(to[r / 2])[2 * lane + r % 2] = to_f16(sum);
    else
      w.at<float>(to[r])[lane] = sum;
  });
}

// Multiplies f64 matrices. Each product is added in turn and rounded once.
void multiply_wide(Warp& w, const Mma& x) {
  double a[16 * 16], b[16 * 8];
  read_operands(w, x, a, b, [](Element, uint64_t bits) { return std::bit_cast<double>(bits); });
  const Register *to = w.listed(x.d).data(), *from = w.listed(x.c).data();
  double sums[4][32];
  constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  std::fesetround(modes[static_cast<int>(x.rounding)]);
  for_each_sum(x.m, [&](int r, int lane, int row, int column) {
    double sum = w.at<double>(from[r])[lane];
    for (int k = 0; k < x.k; ++k) sum = std::fma(a[row * x.k + k], b[k * 8 + column], sum);
    sums[r][lane] = sum;
  });
  std::fesetround(FE_TONEAREST);
  for (int r = 0; r < x.m / 4; ++r) std::memcpy(w.at<double>(to[r]), sums[r], sizeof sums[r]);
}

void execute_mma(Warp& w, const Mma& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  follow_mma(w, x);
  switch (x.of_a.kind) {
    case Element::Kind::real:
      return multiply_real(w, x);
    case Element::Kind::wide:
      return multiply_wide(w, x);
    default:
      return multiply_whole(w, x);
  }
}

// m8n8k4 of f16: four products, each by the lanes of a quad and those 16 lanes above.
struct MmaQuads {
  RegisterList d, a, b, c;
  Type d_type, c_type;
  bool a_by_column, b_by_row;
};

// Returns the row and column of a lane's element e of an accumulator.
std::pair<int, int> place_in_quads(Type type, int lane, int e) {
  const int lower = lane < 16 ? 0 : 4;
  if (type == Type::f16) return {lane % 4 + lower, e};
  return {(lane & 1) + (e & 2) + lower, (e & 4) + (lane & 2) + (e & 1)};
}

void execute_mma_quads(Warp& w, const MmaQuads& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const auto a = w.listed(x.a), b = w.listed(x.b), c = w.listed(x.c), d = w.listed(x.d);
  auto half = [&](Register r, int lane, int e) { return from_f16(w.at<uint16_t>(r)[2 * lane + e % 2]); };
  float results[8][32];
  for (int quad = 0; quad < 4; ++quad) {
    float of_a[8][4], of_b[4][8], of_c[8][8];
    auto for_each_lane = [&](auto f) {
      for (int i = 0; i < 8; ++i) f(4 * quad + i % 4 + i / 4 * 16, i / 4 * 4);
    };
    for_each_lane([&](int lane, int lower) {
      for (int e = 0; e < 4; ++e) {
        const float left = half(a[static_cast<size_t>(e / 2)], lane, e),
                    right = half(b[static_cast<size_t>(e / 2)], lane, e);
        (x.a_by_column ? of_a[e + lower][lane % 4] : of_a[lane % 4 + lower][e]) = left;
        (x.b_by_row ? of_b[lane % 4][e + lower] : of_b[e][lane % 4 + lower]) = right;
      }
      for (int e = 0; e < 8; ++e) {
        const auto [row, column] = place_in_quads(x.c_type, lane, e);
        of_c[row][column] = x.c_type == Type::f16 ? half(c[static_cast<size_t>(e / 2)], lane, e)
                                                  : w.at<float>(c[static_cast<size_t>(e)])[lane];
      }
    });
    for_each_lane([&](int lane, int) {
      for (int e = 0; e < 8; ++e) {
        const auto [row, column] = place_in_quads(x.d_type, lane, e);
        float sum = 0;
        for (int k = 0; k < 4; ++k) sum += of_a[row][k] * of_b[k][column];
        results[e][lane] = of_c[row][column] + sum;
      }
    });
  }
  for (size_t e = 0; e < 8; ++e)
    for (int lane = 0; lane < 32; ++lane)
      if (x.d_type == Type::f16)
        w.at<uint16_t>(d[e / 2])[static_cast<size_t>(2 * lane) + e % 2] = to_f16(results[e][lane]);
      else
        w.at<float>(d[e])[lane] = results[e][lane];
}

Element element_named(std::string_view word) {
  return std::ranges::find(elements, word, &std::pair<std::string_view, Element>::first)->second;
}

// Returns a list of the registers of operand n.
RegisterList fragment_of(Decode& d, size_t n, Type type) {
  const auto parts = Decode::parts(d.operand(n));
  return d.list(n == 0 ? d.destinations(parts, type) : d.sources(parts, type));
}

void decode_mma_quads(Decode& d) {
  const auto layout = std::ranges::find_if(d.words, [](auto word) { return word == "row" || word == "col"; });
  MmaQuads x{};
  x.a_by_column = layout[0] == "col";
  x.b_by_row = layout[1] == "row";
  x.d_type = d.type(0);
  x.c_type = d.type(3);
  x.d = fragment_of(d, 0, Type::b32);
  x.a = fragment_of(d, 1, Type::b32);
  x.b = fragment_of(d, 2, Type::b32);
  x.c = fragment_of(d, 3, Type::b32);
  d.flow = Flow::collective;
  d.run<execute_mma_quads>(x);
}

void decode_mma(Decode& d) {
  Mma x{};
  x.ordered = d.has("sp::ordered_metadata");
  const std::string_view shape = *std::ranges::find_if(d.words, [](auto word) { return word[0] == 'm'; });
  if (shape == "m8n8k4" && !d.has("f64")) return decode_mma_quads(d);
  x.satfinite = d.has("satfinite");
  // The types of d, a, b and c are consecutive words.
  const auto of_a = 1 + std::ranges::find_if(d.words, [](auto word) { return type_named(word).has_value(); });
  x.d_type = *type_named(of_a[-1]);
  x.of_a = element_named(of_a[0]);
  x.of_b = element_named(of_a[1]);
  x.c_type = *type_named(of_a[2]);
  if (x.of_a.kind == Element::Kind::bit)
    x.combine = d.has("and") ? Combine::conjunction : Combine::exclusive_or;
  x.rounding = rounding_of(d);
  x.m = shape[1] == '1' ? 16 : 8;
  x.k = static_cast<uint16_t>(to_number(shape.substr(x.m == 16 ? 6 : 5)));
  if (d.count() > 4) {
    x.metadata = d.source(4, Type::b32);
    d.needs(x.metadata);
    x.selector = static_cast<uint8_t>(d.immediate(5));
  }
  const Type of_registers = x.of_a.kind == Element::Kind::wide ? Type::b64 : Type::b32;
  x.d = fragment_of(d, 0, of_registers);
  x.a = fragment_of(d, 1, of_registers);
  x.b = fragment_of(d, 2, of_registers);
  x.c = fragment_of(d, 3, of_registers);
  d.flow = Flow::handled;
  d.run<execute_mma>(x);
}

}  // namespace

void add_mma(DecodeTable& t) { t["mma"] = decode_mma; }

}  // namespace ptxbuilder::runtime::emulator
