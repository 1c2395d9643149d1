// Executes wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). Each warp computes its 16
// rows.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/matmul.h"
#include "runtime/emulator/instructions/matrix_operand.h"
#include "runtime/emulator/machine/numeric.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {
namespace {

struct Wgmma {
  MatrixRegisters registers;
  Register a_desc;  // no_register if A is in registers
  Register b_desc;
  Register scale_d;   // a predicate
  Register metadata;  // metadata of a sparse A
  uint16_t n;
  Type d_type, a_type, b_type;
  int8_t scale_a, scale_b;  // 1 or -1
  bool transpose_a, transpose_b;
  bool satfinite;
  bool single_bits;  // .b1, with eight bits in each byte of type u8
  uint8_t selector;

  bool a_in_registers() const { return registers.a.size != 0; }
  bool sparse() const { return metadata != no_register; }
  int stored() const { return 32 / bytes(a_type); }  // stored columns of A
  int k() const { return sparse() ? 2 * stored() : stored(); }
  uint32_t b_bytes() const { return sparse() ? 64 : 32; }  // bytes along K
};

uint64_t uniform(Warp& w, Register r, const char* what) {
  const uint64_t* values = w.at<uint64_t>(r);
  for (int k = 1; k < 32; ++k)
    if (values[k] != values[0]) w.fail(Fault::operand, fmt::format("the {} differs between lanes", what), k);
  return values[0];
}

// Returns f(read), where `read` reads an element. Common types have their own `read`, so that the compiler
// can inline it into the loops over a tile.
template <class F>
decltype(auto) with_reader(ElementType element, F f) {
  const auto of_16_bits = [](auto decoded) {
    return [decoded](const std::byte* at) {
      uint16_t code = 0;
      std::memcpy(&code, at, sizeof code);
      return decoded(code);
    };
  };
  switch (element.type) {
    case Type::bf16:
      return f(of_16_bits([](uint16_t code) { return from_bf16(code); }));
    case Type::f16:
      return f(of_16_bits([](uint16_t code) { return from_f16(code); }));
    default:
      return f([element](const std::byte* at) { return element.real(at); });
  }
}

// Moves the even columns of each eight in front of the odd ones.
void sort_columns(std::vector<float>& b) {
  for (size_t at = 0; at + 8 <= b.size(); at += 8) {
    float sorted[8];
    for (size_t i = 0; i < 8; ++i) sorted[i % 2 * 4 + i / 2] = b[at + i];
    std::copy_n(sorted, 8, b.begin() + static_cast<ptrdiff_t>(at));
  }
}

// Returns B as [k][n]. f32 values are in the order that multiply_into_registers() expects.
template <class T, class Read>
const std::vector<T>& matrix_b(const Cta& cta, DecodedTile<T>& kept, uint64_t descriptor, bool mn_major,
                               int n, int k, ElementType element, Read read) {
  const uint32_t shape = static_cast<uint32_t>(n) << 16 | static_cast<uint32_t>(element.type) << 8 |
                         static_cast<uint32_t>(k * element.bytes == 64) << 1 | mn_major;
  if (kept.writes != cta.writes || kept.descriptor != descriptor || kept.shape != shape) {
    kept.values.resize(static_cast<size_t>(n * k));
    read_matrix(cta, MatrixDescriptor(descriptor), mn_major, 0, static_cast<uint32_t>(n), element.bytes, true,
                kept.values.data(), k, read);
    if constexpr (std::same_as<T, float>) sort_columns(kept.values);
    kept.writes = cta.writes;
    kept.descriptor = descriptor;
    kept.shape = shape;
  }
  return kept.values;
}

// Reads the stored columns of A.
template <class T, class Read>
void stored_a(Warp& w, const Wgmma& x, uint64_t descriptor, ElementType element, Read read, T* a) {
  const int k = x.stored();
  if (x.a_in_registers()) {
    for (uint32_t r = 0; r < 4; ++r) {
      const std::byte* data = w.at<std::byte>(w.listed(x.registers.a)[r]);
      for (int lane = 0; lane < 32; ++lane)
        for (int e = 0; e < 4 / element.bytes; ++e) {
          const int row = lane / 4 + 8 * static_cast<int>(r % 2),
                    column = (static_cast<int>(r / 2) * 16 + lane % 4 * 4) / element.bytes + e;
          a[row * k + column] = read(data + lane * 4 + e * element.bytes);
        }
    }
  } else {
    read_matrix(w.cta, MatrixDescriptor(descriptor), x.transpose_a, w.index % 4 * 16, 16, element.bytes,
                false, a, k, read);
  }
}

// Reads A, with zeros where a sparse A stores no element.
template <class T, class Read>
void matrix_a(Warp& w, const Wgmma& x, const PendingWgmma& p, ElementType element, Read read, T* a) {
  if (!x.sparse()) return stored_a(w, x, p.a, element, read, a);
  T stored[16 * 32];
  stored_a(w, x, p.a, element, read, stored);
  const Sparsity sparsity{8 * element.bytes, x.k(), x.selector};
  std::fill_n(a, 16 * x.k(), T{});
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < x.stored(); ++column) {
      const int at = sparsity.column(row, column, p.metadata.data());
      a[row * x.k() + at] = stored[row * x.stored() + column];
    }
}

void compute_real(Warp& w, const Wgmma& x, const PendingWgmma& p) {
  const int n = x.n, k = x.k();
  const ElementType of_a = element_type(x.a_type), of_b = element_type(x.b_type);
  float a[16 * 64];
  with_reader(of_a, [&](auto read) { matrix_a(w, x, p, of_a, read, a); });
  if (x.scale_a != x.scale_b)
    for (int i = 0; i < 16 * k; ++i) a[i] = -a[i];
  const auto& b = with_reader(of_b, [&](auto read) -> const std::vector<float>& {
    return matrix_b(w.cta, w.cta.reals, p.b, x.transpose_b, n, k, of_b, read);
  });
  const Register* registers = w.listed(x.registers.accumulators).data();
  const int count = n / 2;
  float* places[128];
  if (x.d_type != Type::f16) {
    for (int r = 0; r < count; ++r) places[r] = w.at<float>(registers[r]);
    return multiply_into_registers(a, b.data(), places, n, k, p.accumulate);
  }
  // Each register holds two f16 sums.
  float sums[128 * 32];
  for (int r = 0; r < count; ++r) places[r] = sums + 32 * r;
  const auto code = [&](int r, int lane) -> uint16_t& {
    return w.at<uint16_t>(registers[r / 2])[2 * lane + r % 2];
  };
  const auto each = [&](auto body) {
    for (int r = 0; r < count; ++r)
      for (int lane = 0; lane < 32; ++lane) body(code(r, lane), places[r][lane]);
  };
  if (p.accumulate) each([](uint16_t code, float& sum) { sum = from_f16(code); });
  multiply_into_registers(a, b.data(), places, n, k, p.accumulate);
  each([](uint16_t& code, float sum) { code = to_f16(sum); });
}

void compute_whole(Warp& w, const Wgmma& x, const PendingWgmma& p) {
  const int n = x.n, k = x.k();
  const ElementType of_a = element_type(x.a_type), of_b = element_type(x.b_type);
  int32_t a[16 * 64];
  matrix_a(
      w, x, p, of_a, [&](const std::byte* at) { return of_a.whole(at); }, a);
  const auto& b = matrix_b(w.cta, w.cta.wholes, p.b, false, n, k, of_b,
                           [&](const std::byte* at) { return of_b.whole(at); });
  std::vector<int32_t> c(static_cast<size_t>(16 * n));
  const Register* registers = w.listed(x.registers.accumulators).data();
  if (p.accumulate)
    accumulator_from(c.data(), n, [&](int r, int lane) { return w.at<int32_t>(registers[r])[lane]; });
  if (x.single_bits) {
    for (int row = 0; row < 16; ++row)
      for (int j = 0; j < n; ++j)
        for (int byte = 0; byte < k; ++byte)
          c[static_cast<size_t>(row * n + j)] +=
              std::popcount(static_cast<uint32_t>(a[row * k + byte] & b[static_cast<size_t>(byte * n + j)]));
  } else {
    multiply(a, b.data(), c.data(), n, k, x.satfinite);
  }
  accumulator_to(c.data(), n, [&](int r, int lane, int32_t sum) { w.at<int32_t>(registers[r])[lane] = sum; });
}

void execute_wgmma(Warp& w, const Wgmma& x, Lanes lanes);

// Posts the execution of the warp's oldest wgmma. Each of the other wgmmas is posted when its predecessor has
// been executed.
void post_next(Warp& w) {
  w.cluster().post([&w, began = w.cluster().steps] {
    const PendingWgmma p = w.wgmma.queue.front();
    w.instruction = p.instruction;
    const Wgmma& x = *p.instruction->operands<execute_wgmma>();
    if (element_type(x.a_type).integer)
      compute_whole(w, x, p);
    else
      compute_real(w, x, p);
    w.wgmma.queue.pop_front();
    --w.cta.touching;
    if (!w.wgmma.queue.empty()) post_next(w);
    w.cluster().changed();
    if (w.grid().trace) w.grid().trace->operation(w, "wgmma", began, w.cluster().steps, w.here());
  });
}

void execute_wgmma(Warp& w, const Wgmma& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  if (w.index / 4 * 4 + 4 > w.cta.warps.size())
    w.fail(Fault::operand, "the warp does not belong to a whole warpgroup of four warps");
  PendingWgmma p;
  p.instruction = w.instruction;
  p.group = w.wgmma.committed + 1;
  const Lanes scale = *w.at<uint32_t>(x.scale_d);
  if ((scale & lanes) != 0 && (scale & lanes) != lanes)
    w.fail(Fault::operand, "scale-d differs between lanes");
  p.accumulate = scale & lanes;
  p.b = uniform(w, x.b_desc, "descriptor of B");
  const MatrixDescriptor b(p.b);
  check_descriptor(w, b, "B");
  for (Observer* o : w.cluster().observers.tile_read) o->tile_read(w, "B", b.start, b.swizzle);
  const Access deed{w.cta.wgmma_actors[w.warpgroup()], p.group, w.here(), true, 0};
  if (!x.a_in_registers()) {
    p.a = uniform(w, x.a_desc, "descriptor of A");
    const MatrixDescriptor a(p.a);
    check_descriptor(w, a, "A");
    for (Observer* o : w.cluster().observers.tile_read) o->tile_read(w, "A", a.start, a.swizzle);
    touch_matrix(w, a, x.transpose_a, w.index % 4 * 16, 16, 32, deed, "this wgmma reads A at");
  }
  if (x.sparse()) {
    const auto* metadata = w.at<uint32_t>(x.metadata);
    p.metadata.assign(metadata, metadata + 32);
    const Sparsity sparsity{8 * element_type(x.a_type).bytes, x.k(), x.selector};
    if (const std::string rule = sparsity.refusal(metadata, false); !rule.empty())
      w.fail(Fault::operand, rule);
    if (b.swizzle == Swizzle::b32 && !x.transpose_b)
      w.fail(Fault::operand,
             "the emulator does not model the layout of B in 64 B of K with a swizzle of 32 B");
  }
  touch_matrix(w, b, x.transpose_b, 0, x.n, x.b_bytes(), deed, "this wgmma reads B at");
  for (Observer* o : w.cluster().observers.wgmma) o->wgmma(w, x.registers);
  w.wgmma.live.push_back({w.here(), p.group, x.registers});
  w.wgmma.queue.push_back(p);
  ++w.cta.touching;
  if (w.wgmma.queue.size() == 1) post_next(w);
}

void execute_fence(Warp& w, Lanes lanes) {
  if (!w.converged(lanes)) return;
  ++w.wgmma.fences;
}

void execute_wgmma_commit(Warp& w, Lanes lanes) {
  if (!w.converged(lanes)) return;
  ++w.wgmma.committed;
  w.cluster().changed();
}

// Executes wgmma.wait_group. The wait covers the wgmmas of the whole warpgroup, not only the warp's part of
// them, so that one warp may release a stage for all.
void execute_wgmma_wait(Warp& w, const WaitGroup& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const int64_t target = int64_t{w.wgmma.committed} - x.n;
  if (target > 0)
    for (uint32_t k = w.warpgroup() * 4; k < std::min<size_t>(w.warpgroup() * 4 + 4, w.cta.warps.size());
         ++k) {
      const Warp& peer = *w.cta.warps[k];
      const bool pending = !peer.wgmma.queue.empty() && peer.wgmma.queue.front().group <= target;
      if (pending || (peer.alive && peer.wgmma.committed < target)) return w.retry(Wait::wgmma);
    }
  if (target <= 0) return;
  w.causality.learn(w.cta.wgmma_actors[w.warpgroup()], static_cast<uint32_t>(target));
  std::erase_if(w.wgmma.live, [&](const LiveWgmma& live) { return live.group <= target; });
}

void decode_wgmma(Decode& d) {
  Wgmma x{};
  const std::string_view shape =
      *std::ranges::find_if(d.words, [](auto word) { return word.starts_with("m64n"); });
  x.n = static_cast<uint16_t>(to_number(shape.substr(4, shape.find('k') - 4)));
  x.satfinite = d.has("satfinite");
  x.single_bits = d.has("b1");
  x.d_type = d.type(0);
  x.a_type = x.single_bits ? Type::u8 : d.type(1);
  x.b_type = x.single_bits ? Type::u8 : d.type(2);
  const std::vector<Register> sums = d.destinations(Decode::parts(d["d"]), Type::b32);
  x.registers.accumulators = d.list(sums);
  d.held = sums;
  if (const ptx_text::Operand& a = d["a"]; a.kind == ptx_text::Operand::Kind::vector) {
    const std::vector<Register> of_a = d.sources(Decode::parts(a), Type::b32);
    x.registers.a = d.list(of_a);
    d.held.insert(d.held.end(), of_a.begin(), of_a.end());
  } else {
    x.a_desc = d.source(a, Type::b64);
  }
  x.b_desc = d.source(d["b"], Type::b64);
  if (const ptx_text::Operand* metadata = d.find("sp_meta")) {
    x.metadata = d.source(*metadata, Type::b32);
    d.needs(x.metadata);
    x.selector = static_cast<uint8_t>(*ptx_text::integer_value(d["sp_sel"]));
  }
  x.scale_d = d.source(d["scale_d"], Type::pred);
  const auto number = [&](std::string_view name, int64_t otherwise) {
    const ptx_text::Operand* o = d.find(name);
    return o ? *ptx_text::integer_value(*o) : otherwise;
  };
  x.scale_a = static_cast<int8_t>(number("scale_a", 1));
  x.scale_b = static_cast<int8_t>(number("scale_b", 1));
  x.transpose_a = number("trans_a", 0);
  x.transpose_b = number("trans_b", 0);
  d.flow = Flow::accumulates;
  d.decides = {x.scale_d};
  d.needs_all();
  d.run<execute_wgmma>(x);
}

}  // namespace

void add_wgmma(DecodeTable& t) {
  t["wgmma.mma_async"] = decode_wgmma;
  t["wgmma.fence"] = [](Decode& d) { d.run<execute_fence>(); };
  t["wgmma.commit_group"] = [](Decode& d) { d.run<execute_wgmma_commit>(); };
  t["wgmma.wait_group"] = [](Decode& d) { d.run<execute_wgmma_wait>(take_wait_group(d)); };
}

}  // namespace ptxbuilder::runtime::emulator
