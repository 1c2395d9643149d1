// Warp-level matrix instructions (PTX ISA, mma, ldmatrix, stmatrix, movmatrix).
#include <fmt/format.h>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/matmul.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// ldmatrix and stmatrix: list the registers; r[5] the address. mode: 1 matrices, 2 transposed, 7 width of the
// base. Lane 8 m + r gives the address of row r of matrix m; lane l holds elements 2 (l % 4) and the next of
// row l / 4.
template <bool store>
void execute_rows(Warp& w, const Instruction& i, Lanes) {
  w.require_converged();
  for (int m = 0; m < i.mode[1]; ++m) {
    uint16_t* data = w.at<uint16_t>(w.listed(i, static_cast<uint32_t>(m)));
    for (int row = 0; row < 8; ++row) {
      const int lane = 8 * m + row;
      const uint64_t address = w.address(i.r[5], i.mode[7], i.immediate, lane);
      if (address % 16)
        w.fail(Fault::misaligned, fmt::format("the row address {:#x} is not a multiple of 16", address),
               lane);
      Cta* owner;
      uint32_t offset;
      std::byte* place = w.place(address, 16, i.space, lane, owner, offset);
      if (owner) w.touch(*owner, offset, 16, store, lane);
      for (int k = 0; k < 8; ++k) {
        const int holder = i.mode[2] ? k * 4 + row / 2 : row * 4 + k / 2, part = i.mode[2] ? row % 2 : k % 2;
        if constexpr (store)
          std::memcpy(place + 2 * k, &data[2 * holder + part], 2);
        else
          std::memcpy(&data[2 * holder + part], place + 2 * k, 2);
      }
    }
  }
}

void decode_rows(Decode& d, bool store) {
  d.take_any({"sync", "aligned"});
  if (!d.take("m8n8")) d.refuse("the shapes but m8n8 are not on sm_90");
  auto x = d.take_one({"x1", "x2", "x4"});
  d.out.mode[1] = x == "x4" ? 4 : x == "x2" ? 2 : 1;
  d.out.mode[2] = d.take("trans");
  auto space = d.take_one({"shared::cta", "shared"});
  d.out.space = space.empty() ? Space::generic : Space::shared;
  d.take("b16");
  d.done();
  d.expect(2, 2);
  AddressOperand a = d.address(d.operand(store ? 0 : 1));
  d.out.r[5] = a.base;
  d.out.mode[7] = a.base_bytes;
  d.out.immediate = a.displacement;
  auto parts = Decode::parts(d.operand(store ? 1 : 0));
  if (parts.size() != d.out.mode[1]) d.refuse("the registers do not match the number of matrices");
  for (const ptx::Operand* o : parts) d.list(store ? d.source(*o, Type::b32) : d.destination(*o, Type::b32));
  d.out.execute = store ? execute_rows<true> : execute_rows<false>;
}

void execute_movmatrix(Warp& w, const Instruction& i, Lanes) {
  w.require_converged();
  uint16_t from[64];
  std::memcpy(from, w.at<uint16_t>(i.r[1]), sizeof from);
  uint16_t* to = w.at<uint16_t>(i.r[0]);
  for (int row = 0; row < 8; ++row)
    for (int k = 0; k < 8; ++k) to[2 * (k * 4 + row / 2) + row % 2] = from[2 * (row * 4 + k / 2) + k % 2];
}

// mma m16n8k*: list d (2 or 4), a (2 or 4), b (1 or 2), c. mode: 0 type of d, 1 of a, 2 of b, 3 of c, 4
// 16-byte halves of a row along K, 5 saturates.
template <class T, class Read>
void fragments(Warp& w, const Instruction& i, uint32_t a_at, uint32_t b_at, ElementType of_a,
               ElementType of_b, Read read, T* a, T* b) {
  const int halves = i.mode[4], k = 16 * halves / of_a.bytes;
  for (int h = 0; h < halves; ++h)
    for (int lane = 0; lane < 32; ++lane) {
      for (int upper = 0; upper < 2; ++upper) {
        const std::byte* data =
            w.at<std::byte>(w.listed(i, a_at + static_cast<uint32_t>(2 * h + upper))) + 4 * lane;
        for (int e = 0; e < 4 / of_a.bytes; ++e)
          a[(lane / 4 + 8 * upper) * k + (16 * h + lane % 4 * 4) / of_a.bytes + e] =
              read(of_a, data + e * of_a.bytes);
      }
      const std::byte* data = w.at<std::byte>(w.listed(i, b_at + static_cast<uint32_t>(h))) + 4 * lane;
      for (int e = 0; e < 4 / of_b.bytes; ++e)
        b[((16 * h + lane % 4 * 4) / of_b.bytes + e) * 8 + lane / 4] = read(of_b, data + e * of_b.bytes);
    }
}

void execute_mma(Warp& w, const Instruction& i, Lanes) {
  w.require_converged();
  const ElementType of_a = element_type(static_cast<Type>(i.mode[1])),
                    of_b = element_type(static_cast<Type>(i.mode[2]));
  const bool d_half = static_cast<Type>(i.mode[0]) == Type::f16,
             c_half = static_cast<Type>(i.mode[3]) == Type::f16;
  const uint32_t halves = i.mode[4], a_at = d_half ? 2 : 4, b_at = a_at + 2 * halves, c_at = b_at + halves;
  const int k = static_cast<int>(16 * halves) / of_a.bytes;
  const uint32_t* list = w.grid().kernel.lists.data() + i.list;
  if (of_a.integer) {
    int32_t a[16 * 32], b[32 * 8], c[16 * 8];
    fragments(
        w, i, a_at, b_at, of_a, of_b, [](const ElementType& e, const std::byte* at) { return e.whole(at); },
        a, b);
    accumulator_from(
        c, 8, [&](int r, int lane) { return w.at<int32_t>(list[c_at + static_cast<uint32_t>(r)])[lane]; });
    multiply(a, b, c, 8, k, i.mode[5]);
    accumulator_to(c, 8, [&](int r, int lane, int32_t x) { w.at<int32_t>(list[r])[lane] = x; });
    return;
  }
  float a[16 * 32], b[32 * 8], c[16 * 8];
  fragments(
      w, i, a_at, b_at, of_a, of_b, [](const ElementType& e, const std::byte* at) { return e.real(at); }, a,
      b);
  accumulator_from(c, 8, [&](int r, int lane) {
    const uint32_t at = c_at + static_cast<uint32_t>(r);
    return c_half ? from_f16(w.at<uint16_t>(list[c_at + static_cast<uint32_t>(r / 2)])[2 * lane + r % 2])
                  : w.at<float>(list[at])[lane];
  });
  multiply(a, b, c, 8, k);
  accumulator_to(c, 8, [&](int r, int lane, float x) {
    if (d_half)
      w.at<uint16_t>(list[r / 2])[2 * lane + r % 2] = to_f16(x);
    else
      w.at<float>(list[r])[lane] = x;
  });
}

// m8n8k4 of f64: one element of a and b each, two of c and d.
void execute_mma_f64(Warp& w, const Instruction& i, Lanes) {
  w.require_converged();
  const uint32_t* list = w.grid().kernel.lists.data() + i.list;
  const double *a = w.at<double>(list[2]), *b = w.at<double>(list[3]);
  double result[2][32];
  for (int e = 0; e < 2; ++e)
    for (int lane = 0; lane < 32; ++lane) {
      double sum = w.at<double>(list[4 + e])[lane];
      for (int k = 0; k < 4; ++k) sum = std::fma(a[lane / 4 * 4 + k], b[(lane % 4 * 2 + e) * 4 + k], sum);
      result[e][lane] = sum;
    }
  for (int e = 0; e < 2; ++e) std::memcpy(w.at<double>(list[e]), result[e], sizeof result[e]);
}

void decode_mma(Decode& d) {
  if (!d.take("sync") || !d.take("aligned")) d.refuse("mma without .sync.aligned is gone");
  std::string_view shape = d.modifiers.empty() ? std::string_view() : d.modifiers.front();
  d.take(shape);
  if (!d.take("row") || !d.take("col")) d.refuse("only .row.col is supported");
  d.out.mode[5] = d.take("satfinite");
  const Type types[] = {d.take_type(), d.take_type(), d.take_type(), d.take_type()};
  d.done();
  d.expect(4, 4);
  size_t sizes[4];
  Type each[4];
  if (shape == "m8n8k4" && types[0] == Type::f64) {
    constexpr size_t f64_sizes[] = {2, 1, 1, 2};
    for (int k = 0; k < 4; ++k) sizes[k] = f64_sizes[k], each[k] = Type::b64;
    d.out.execute = execute_mma_f64;
  } else {
    const ElementType element = element_type(types[1]), other = element_type(types[2]);
    const auto k = shape.starts_with("m16n8k") ? to_number(shape.substr(6)) : 0;
    if (element.bytes == 0 || k == 0 || k > 32 || other.bytes != element.bytes ||
        other.integer != element.integer)
      d.refuse("this shape and type are not supported");
    const int halves = static_cast<int>(k) * element.bytes / 16;
    if (halves < 1 || halves > 2) d.refuse("this shape and type are not supported");
    for (Type sum : {types[0], types[3]})
      d.require(element.integer ? sum == Type::s32 : sum == Type::f32 || sum == Type::f16);
    for (int n = 0; n < 4; ++n) d.out.mode[n] = static_cast<uint8_t>(types[n]);
    d.out.mode[4] = static_cast<uint8_t>(halves);
    const auto h = static_cast<size_t>(halves);
    const size_t counts[] = {types[0] == Type::f16 ? 2u : 4u, 2 * h, h, types[3] == Type::f16 ? 2u : 4u};
    for (int n = 0; n < 4; ++n) sizes[n] = counts[n], each[n] = Type::b32;
    d.out.execute = execute_mma;
  }
  for (size_t n = 0; n < 4; ++n) {
    auto parts = Decode::parts(d.operand(n));
    if (parts.size() != sizes[n])
      d.refuse(fmt::format("operand {} has {} registers; {} are needed", n + 1, parts.size(), sizes[n]));
    for (const ptx::Operand* o : parts) d.list(n == 0 ? d.destination(*o, each[n]) : d.source(*o, each[n]));
  }
}

}  // namespace

void add_matrix(DecodeTable& t) {
  t["mma"] = decode_mma;
  t["ldmatrix"] = [](Decode& d) { decode_rows(d, false); };
  t["stmatrix"] = [](Decode& d) { decode_rows(d, true); };
  t["movmatrix"] = [](Decode& d) {
    d.take_any({"sync", "aligned", "m8n8", "trans", "b16"});
    d.done();
    d.out.r[0] = d.destination(0, Type::b32);
    d.out.r[1] = d.source(1, Type::b32);
    d.out.execute = execute_movmatrix;
  };
}

}  // namespace ptxbuilder::runtime::emulator
