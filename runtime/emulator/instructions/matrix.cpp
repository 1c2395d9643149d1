// Warp-level matrix instructions (PTX ISA, mma, ldmatrix, stmatrix, movmatrix).
#include <fmt/format.h>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/matmul.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// ldmatrix and stmatrix of one matrix for each register. Lane 8 m + r gives the address of row r of matrix m;
// lane l holds elements 2 (l % 4) and the next of row l / 4.
struct MatrixAccess {
  AddressOperand p;
  RegisterList r;
  Space space;
  bool trans;
};

template <bool store>
void execute_rows(Warp& w, const MatrixAccess& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const auto registers = w.listed(x.r);
  const bool trans = x.trans;
  for (size_t m = 0; m < registers.size(); ++m) {
    Lanes undefined = 0;  // by row
    Cta* of_undefined = nullptr;
    uint32_t undefined_at = 0;
    uint16_t* data = w.at<uint16_t>(registers[m]);
    for (int row = 0; row < 8; ++row) {
      const int lane = 8 * static_cast<int>(m) + row;
      const uint64_t address = w.address(x.p, lane);
      if (address % 16)
        w.fail(Fault::misaligned, fmt::format("the row address {:#x} is not a multiple of 16", address),
               lane);
      Cta* owner;
      uint32_t offset;
      std::byte* place = w.place(address, 16, x.space, lane, owner, offset);
      if (owner) w.touch(*owner, offset, 16, store, lane);
      if (!store && owner && owner->shadow.uninitialised) {
        owner->shadow.uninitialised.reset();
        if (!owner->shadow.any_initialised(offset, 16)) {
          undefined |= Lanes{1} << row;
          of_undefined = owner;
          undefined_at = offset;
        }
      }
      for (int k = 0; k < 8; ++k) {
        const int holder = trans ? k * 4 + row / 2 : row * 4 + k / 2, part = trans ? row % 2 : k % 2;
        if constexpr (store)
          std::memcpy(place + 2 * k, &data[2 * holder + part], 2);
        else
          std::memcpy(&data[2 * holder + part], place + 2 * k, 2);
      }
    }
    if (store || (!undefined && !w.follows())) continue;
    w.set_undefined(registers[m], all_lanes, 0, {});
    if (!undefined) continue;
    // A lane holds two elements of one row, or of two rows that stand side by side in the transposed matrix.
    Lanes lanes_of_it = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const int pair = lane % 4 * 2;
      const bool is_undefined = trans ? (undefined >> pair & 3) == 3 : (undefined >> (lane / 4) & 1) != 0;
      lanes_of_it |= static_cast<Lanes>(is_undefined) << lane;
    }
    w.set_undefined(
        registers[m], all_lanes, lanes_of_it,
        {no_register, w.here(),
         fmt::format("this reads {}, which nothing had written", of_undefined->name(undefined_at)), true});
  }
}

void decode_rows(Decode& d, bool store) {
  d.take_any({"sync", "aligned"});
  if (!d.take("m8n8")) d.refuse("the shapes but m8n8 are not on sm_90");
  auto num = d.take_one({"x1", "x2", "x4"});
  const size_t matrices = num == "x4" ? 4 : num == "x2" ? 2 : 1;
  const bool trans = d.take("trans");
  const Space space = d.take_one({"shared::cta", "shared"}).empty() ? Space::generic : Space::shared;
  d.take("b16");
  d.done();
  d.expect(2, 2);
  const AddressOperand p = d.address(d.operand(store ? 0 : 1));
  auto parts = Decode::parts(d.operand(store ? 1 : 0));
  if (parts.size() != matrices) d.refuse("the registers do not match the number of matrices");
  const RegisterList r = d.list(store ? d.sources(parts, Type::b32) : d.destinations(parts, Type::b32));
  const MatrixAccess x{p, r, space, trans};
  d.flow = Flow::handled;
  store ? d.run<execute_rows<true>>(x) : d.run<execute_rows<false>>(x);
}

void execute_movmatrix(Warp& w, const Unary& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  uint16_t from[64];
  std::memcpy(from, w.at<uint16_t>(x.a), sizeof from);
  uint16_t* to = w.at<uint16_t>(x.d);
  for (int row = 0; row < 8; ++row)
    for (int k = 0; k < 8; ++k) to[2 * (k * 4 + row / 2) + row % 2] = from[2 * (row * 4 + k / 2) + k % 2];
}

// m16n8k*: fragments of A have two registers for each 16 bytes of a row along K, those of B one.
struct Mma {
  RegisterList d, a, b, c;
  Type d_type, a_type, b_type, c_type;
  bool satfinite;
};

template <class T, class Read>
void read_fragments(Warp& w, const Mma& x, Read read, T* a, T* b) {
  const ElementType of_a = element_type(x.a_type), of_b = element_type(x.b_type);
  const auto from_a = w.listed(x.a), from_b = w.listed(x.b);
  const int halves = static_cast<int>(x.b.size), k = 16 * halves / of_a.bytes;
  for (int h = 0; h < halves; ++h)
    for (int lane = 0; lane < 32; ++lane) {
      for (int upper = 0; upper < 2; ++upper) {
        const std::byte* data = w.at<std::byte>(from_a[static_cast<size_t>(2 * h + upper)]) + 4 * lane;
        for (int e = 0; e < 4 / of_a.bytes; ++e)
          a[(lane / 4 + 8 * upper) * k + (16 * h + lane % 4 * 4) / of_a.bytes + e] =
              read(of_a, data + e * of_a.bytes);
      }
      const std::byte* data = w.at<std::byte>(from_b[static_cast<size_t>(h)]) + 4 * lane;
      for (int e = 0; e < 4 / of_b.bytes; ++e)
        b[((16 * h + lane % 4 * 4) / of_b.bytes + e) * 8 + lane / 4] = read(of_b, data + e * of_b.bytes);
    }
}

// An element of d is undefined where its row of a, its column of b or its own of c is. Registers of a hold
// the upper rows and the lower ones in turn, as those of d and c do; of each pair of registers of f16 one
// counts.
void follow_mma(Warp& w, const Mma& x) {
  if (!w.follows()) return;
  const auto a = w.listed(x.a), b = w.listed(x.b), c = w.listed(x.c), d = w.listed(x.d);
  Lanes rows[2] = {}, columns = 0;  // rows by lane / 4, columns likewise
  Register from = no_register;
  auto note = [&](Register r, Lanes& eighths) {
    const Lanes undefined = w.undefined_in(r);
    for (int k = 0; k < 8; ++k)
      if (undefined >> (4 * k) & 15) eighths |= Lanes{1} << k;
    if (undefined) from = r;
  };
  for (size_t k = 0; k < a.size(); ++k) note(a[k], rows[k % 2]);
  for (Register r : b) note(r, columns);
  Lanes results[4] = {};  // d and c may be the same registers
  for (size_t k = 0; k < d.size(); ++k) {
    const bool half = d.size() == 2;
    const size_t lower = half ? k : k / 2;
    Lanes& result = results[k];
    result = c.size() == d.size() ? w.undefined_in(c[k]) : 0;
    if (result) from = c[k];
    for (int lane = 0; lane < 32; ++lane) {
      const int column = lane % 4 * 2;
      const bool is_undefined =
          (rows[lower] >> (lane / 4) & 1) != 0 ||
          (half ? (columns >> column & 3) == 3 : (columns >> (column + static_cast<int>(k % 2)) & 1) != 0);
      result |= static_cast<Lanes>(is_undefined) << lane;
    }
  }
  const Origin origin = from == no_register ? Origin{} : w.origin_of(from);
  for (size_t k = 0; k < d.size(); ++k) w.set_undefined(d[k], all_lanes, results[k], origin);
}

void execute_mma(Warp& w, const Mma& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  follow_mma(w, x);
  const ElementType of_a = element_type(x.a_type);
  const int k = static_cast<int>(16 * x.b.size) / of_a.bytes;
  const Register *to = w.listed(x.d).data(), *from = w.listed(x.c).data();
  if (of_a.integer) {
    int32_t a[16 * 32], b[32 * 8], c[16 * 8];
    read_fragments(
        w, x, [](const ElementType& e, const std::byte* at) { return e.whole(at); }, a, b);
    accumulator_from(c, 8, [&](int r, int lane) { return w.at<int32_t>(from[r])[lane]; });
    multiply(a, b, c, 8, k, x.satfinite);
    accumulator_to(c, 8, [&](int r, int lane, int32_t sum) { w.at<int32_t>(to[r])[lane] = sum; });
    return;
  }
  const bool d_half = x.d_type == Type::f16, c_half = x.c_type == Type::f16;
  float a[16 * 32], b[32 * 8], c[16 * 8];
  read_fragments(
      w, x, [](const ElementType& e, const std::byte* at) { return e.real(at); }, a, b);
  accumulator_from(c, 8, [&](int r, int lane) {
    return c_half ? from_f16(w.at<uint16_t>(from[r / 2])[2 * lane + r % 2]) : w.at<float>(from[r])[lane];
  });
  multiply(a, b, c, 8, k);
  accumulator_to(c, 8, [&](int r, int lane, float sum) {
    if (d_half)
      w.at<uint16_t>(to[r / 2])[2 * lane + r % 2] = to_f16(sum);
    else
      w.at<float>(to[r])[lane] = sum;
  });
}

// m8n8k4 of f64: one element of a and b each, two of c and d.
struct MmaF64 {
  RegisterList d, a, b, c;
};

void execute_mma_f64(Warp& w, const MmaF64& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const double *a = w.at<double>(w.listed(x.a)[0]), *b = w.at<double>(w.listed(x.b)[0]);
  double result[2][32];
  for (size_t e = 0; e < 2; ++e)
    for (int lane = 0; lane < 32; ++lane) {
      double sum = w.at<double>(w.listed(x.c)[e])[lane];
      for (int k = 0; k < 4; ++k)
        sum = std::fma(a[lane / 4 * 4 + k], b[(lane % 4 * 2 + static_cast<int>(e)) * 4 + k], sum);
      result[e][lane] = sum;
    }
  for (size_t e = 0; e < 2; ++e) std::memcpy(w.at<double>(w.listed(x.d)[e]), result[e], sizeof result[e]);
}

// The registers of operand n, of which there are to be `count`.
RegisterList take_fragment(Decode& d, size_t n, Type type, size_t count) {
  auto parts = Decode::parts(d.operand(n));
  if (parts.size() != count)
    d.refuse(fmt::format("operand {} has {} registers; {} are needed", n + 1, parts.size(), count));
  return d.list(n == 0 ? d.destinations(parts, type) : d.sources(parts, type));
}

void decode_mma(Decode& d) {
  if (!d.take("sync") || !d.take("aligned")) d.refuse("mma without .sync.aligned is gone");
  std::string_view shape = d.modifiers.empty() ? std::string_view() : d.modifiers.front();
  d.take(shape);
  if (!d.take("row") || !d.take("col")) d.refuse("only .row.col is supported");
  const bool satfinite = d.take("satfinite");
  const Type types[] = {d.take_type(), d.take_type(), d.take_type(), d.take_type()};
  d.done();
  d.expect(4, 4);
  if (shape == "m8n8k4" && types[0] == Type::f64) {
    const RegisterList to = take_fragment(d, 0, Type::b64, 2), a = take_fragment(d, 1, Type::b64, 1),
                       b = take_fragment(d, 2, Type::b64, 1), c = take_fragment(d, 3, Type::b64, 2);
    return d.run<execute_mma_f64>({to, a, b, c});
  }
  const ElementType element = element_type(types[1]), other = element_type(types[2]);
  const auto k = shape.starts_with("m16n8k") ? to_number(shape.substr(6)) : 0;
  if (element.bytes == 0 || k == 0 || k > 32 || other.bytes != element.bytes ||
      other.integer != element.integer)
    d.refuse("this shape and type are not supported");
  const size_t halves = k * static_cast<size_t>(element.bytes) / 16;
  if (halves < 1 || halves > 2) d.refuse("this shape and type are not supported");
  for (Type sum : {types[0], types[3]})
    d.require(element.integer ? sum == Type::s32 : sum == Type::f32 || sum == Type::f16);
  const RegisterList to = take_fragment(d, 0, Type::b32, types[0] == Type::f16 ? 2 : 4),
                     a = take_fragment(d, 1, Type::b32, 2 * halves),
                     b = take_fragment(d, 2, Type::b32, halves),
                     c = take_fragment(d, 3, Type::b32, types[3] == Type::f16 ? 2 : 4);
  d.flow = Flow::handled;
  d.run<execute_mma>({to, a, b, c, types[0], types[1], types[2], types[3], satfinite});
}

}  // namespace

void add_matrix(DecodeTable& t) {
  t["mma"] = decode_mma;
  t["ldmatrix"] = [](Decode& d) { decode_rows(d, false); };
  t["stmatrix"] = [](Decode& d) { decode_rows(d, true); };
  t["movmatrix"] = [](Decode& d) {
    d.take_any({"sync", "aligned", "m8n8", "trans", "b16"});
    d.done();
    d.run<execute_movmatrix>({d.destination(0, Type::b32), d.source(1, Type::b32)});
  };
}

}  // namespace ptxbuilder::runtime::emulator
