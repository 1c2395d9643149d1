// wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). Each warp computes its 16 rows.
#include <fmt/format.h>

#include <bit>

#include "runtime/emulator/instructions/descriptor.h"
#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/matmul.h"
#include "runtime/emulator/machine/numeric.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// list: the accumulator registers, then those of A, if it comes from registers. r[0] descriptor of A, r[1] of
// B, r[2] scale-d. mode: 0 n / 8, 1 accumulator Type, 2 type of A, 3 of B, 4 flags, 5 scale-a and scale-b (1:
// negated), 6 registers of the accumulator.
enum : uint8_t { transpose_a = 1, transpose_b = 2, saturate = 4, a_in_registers = 8, single_bits = 16 };

int k_of(const Instruction& i) { return 32 / bytes(static_cast<Type>(i.mode[2])); }

uint64_t uniform(Warp& w, uint32_t r, const char* what) {
  const uint64_t* values = w.at<uint64_t>(r);
  for (int k = 1; k < 32; ++k)
    if (values[k] != values[0]) w.fail(Fault::operand, fmt::format("the {} differs between lanes", what), k);
  return values[0];
}

// Calls f(mn, k, shared address) for each 16 bytes of a matrix of `rows` along M or N and 32 bytes (16
// elements, when it is MN-major) along K.
template <class F>
void for_each_unit(const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows, F f) {
  if (mn_major) {
    for (uint32_t mn = first; mn < first + rows; mn += 8)
      for (uint32_t k = 0; k < 16; ++k) f(mn, k, d.mn_major(mn, k));
  } else {
    for (uint32_t mn = first; mn < first + rows; ++mn)
      for (uint32_t k = 0; k < 32; k += 16) f(mn, k, d.k_major(mn, k));
  }
}

void check_descriptor(Warp& w, const MatrixDescriptor& d, const char* what) {
  if (d.base_offset)
    w.fail(Fault::operand, fmt::format("the descriptor of {} has base offset {}: the emulator takes 0 alone",
                                       what, d.base_offset));
}

// Records the reads of one operand, and reports those outside of shared memory.
void touch_matrix(Warp& w, const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows,
                  Access deed, const char* what) {
  uint32_t low = ~0u, high = 0;
  // Neighbouring units are recorded together.
  uint32_t from = 0, to = 0;
  auto flush = [&] {
    if (to > from) w.touch_async(w.cta, from, to - from, false, deed, what);
  };
  for_each_unit(d, mn_major, first, rows, [&](uint32_t, uint32_t, uint32_t address) {
    low = std::min(low, address);
    high = std::max(high, address + 16);
    if (low < shared_reserved || high > w.cta.shared.size())
      w.fail(Fault::out_of_bounds, fmt::format("{} the shared address {:#x}, outside of the CTA's {} B", what,
                                               address, w.cta.shared.size() - shared_reserved));
    if (address == to) {
      to += 16;
    } else if (address + 16 == from) {
      from = address;
    } else {
      flush();
      from = address;
      to = address + 16;
    }
  });
  flush();
}

template <class T, class Read>
void read_matrix(const Cta& cta, const MatrixDescriptor& d, bool mn_major, uint32_t first, uint32_t rows,
                 int size, bool by_k, T* out, int k_count, Read read) {
  for_each_unit(d, mn_major, first, rows, [&](uint32_t mn, uint32_t k, uint32_t address) {
    const std::byte* unit = cta.shared.data() + address;
    for (int e = 0; e < 16 / size; ++e) {
      const uint32_t row = mn - first + (mn_major ? static_cast<uint32_t>(e) : 0);
      const uint32_t column = mn_major ? k : k / static_cast<uint32_t>(size) + static_cast<uint32_t>(e);
      out[by_k ? column * rows + row : row * static_cast<uint32_t>(k_count) + column] = read(unit + e * size);
    }
  });
}

// B as [k][n].
template <class T, class Read>
const std::vector<T>& matrix_b(const Cta& cta, DecodedTile<T>& kept, uint64_t descriptor, bool mn_major,
                               int n, int k, ElementType element, Read read) {
  const uint32_t shape = static_cast<uint32_t>(n) << 16 | static_cast<uint32_t>(element.type) << 8 | mn_major;
  if (kept.writes != cta.writes || kept.descriptor != descriptor || kept.shape != shape) {
    kept.values.resize(static_cast<size_t>(n * k));
    read_matrix(cta, MatrixDescriptor(descriptor), mn_major, 0, static_cast<uint32_t>(n), element.bytes, true,
                kept.values.data(), k, read);
    kept.writes = cta.writes;
    kept.descriptor = descriptor;
    kept.shape = shape;
  }
  return kept.values;
}

template <class T, class Read>
void matrix_a(Warp& w, const PendingWgmma& p, int k, ElementType element, Read read, T* a) {
  const Instruction& i = *p.instruction;
  if (i.mode[4] & a_in_registers) {
    for (uint32_t r = 0; r < 4; ++r) {
      const std::byte* data = w.at<std::byte>(w.listed(i, i.mode[6] + r));
      for (int lane = 0; lane < 32; ++lane)
        for (int e = 0; e < 4 / element.bytes; ++e) {
          const int row = lane / 4 + 8 * static_cast<int>(r % 2),
                    column = (static_cast<int>(r / 2) * 16 + lane % 4 * 4) / element.bytes + e;
          a[row * k + column] = read(data + lane * 4 + e * element.bytes);
        }
    }
  } else {
    read_matrix(w.cta, MatrixDescriptor(p.a), i.mode[4] & transpose_a, w.index % 4 * 16, 16, element.bytes,
                false, a, k, read);
  }
}

void compute_real(Warp& w, const PendingWgmma& p) {
  const Instruction& i = *p.instruction;
  const int n = i.mode[0] * 8, k = k_of(i);
  const ElementType of_a = element_type(static_cast<Type>(i.mode[2])),
                    of_b = element_type(static_cast<Type>(i.mode[3]));
  float a[16 * 32];
  matrix_a(
      w, p, k, of_a, [&](const std::byte* at) { return of_a.real(at); }, a);
  const auto& b = matrix_b(w.cta, w.cta.reals, p.b, i.mode[4] & transpose_b, n, k, of_b,
                           [&](const std::byte* at) { return of_b.real(at); });
  if (i.mode[5] == 1 || i.mode[5] == 2)
    for (float& x : a) x = -x;
  thread_local std::vector<float> c;
  c.assign(static_cast<size_t>(16 * n), 0.0f);
  const bool half = static_cast<Type>(i.mode[1]) == Type::f16;
  const uint32_t* registers = w.grid().kernel.lists.data() + i.list;
  if (p.accumulate)
    accumulator_from(c.data(), n, [&](int r, int lane) {
      return half ? from_f16(w.at<uint16_t>(registers[r / 2])[2 * lane + r % 2])
                  : w.at<float>(registers[r])[lane];
    });
  multiply(a, b.data(), c.data(), n, k);
  accumulator_to(c.data(), n, [&](int r, int lane, float x) {
    if (half)
      w.at<uint16_t>(registers[r / 2])[2 * lane + r % 2] = to_f16(x);
    else
      w.at<float>(registers[r])[lane] = x;
  });
}

void compute_whole(Warp& w, const PendingWgmma& p) {
  const Instruction& i = *p.instruction;
  const int n = i.mode[0] * 8, k = k_of(i);
  const ElementType of_a = element_type(static_cast<Type>(i.mode[2])),
                    of_b = element_type(static_cast<Type>(i.mode[3]));
  int32_t a[16 * 32];
  matrix_a(
      w, p, k, of_a, [&](const std::byte* at) { return of_a.whole(at); }, a);
  const auto& b = matrix_b(w.cta, w.cta.wholes, p.b, false, n, k, of_b,
                           [&](const std::byte* at) { return of_b.whole(at); });
  std::vector<int32_t> c(static_cast<size_t>(16 * n));
  const uint32_t* registers = w.grid().kernel.lists.data() + i.list;
  if (p.accumulate)
    accumulator_from(c.data(), n, [&](int r, int lane) { return w.at<int32_t>(registers[r])[lane]; });
  if (i.mode[4] & single_bits) {  // eight bits in each byte
    for (int row = 0; row < 16; ++row)
      for (int j = 0; j < n; ++j)
        for (int x = 0; x < k; ++x)
          c[static_cast<size_t>(row * n + j)] +=
              std::popcount(static_cast<uint32_t>(a[row * k + x] & b[static_cast<size_t>(x * n + j)]));
  } else {
    multiply(a, b.data(), c.data(), n, k, i.mode[4] & saturate);
  }
  accumulator_to(c.data(), n, [&](int r, int lane, int32_t x) { w.at<int32_t>(registers[r])[lane] = x; });
}

// Completes the oldest of the warp's wgmmas; the others follow in order, each at a time of its own.
void post_next(Warp& w) {
  w.cluster().post([&w, began = w.cluster().steps] {
    const PendingWgmma p = w.wgmma_queue.front();
    w.instruction = p.instruction;
    if (element_type(static_cast<Type>(p.instruction->mode[2])).integer)
      compute_whole(w, p);
    else
      compute_real(w, p);
    w.wgmma_queue.pop_front();
    --w.cta.touching;
    if (!w.wgmma_queue.empty()) post_next(w);
    w.cluster().changed();
    if (w.grid().trace)
      w.grid().trace->operation(w, "wgmma", began, w.cluster().steps, w.pc_of(*p.instruction));
  });
}

void execute_wgmma(Warp& w, const Instruction& i, Lanes lanes) {
  w.require_converged();
  if (lanes != w.lanes)
    w.fail(Fault::divergence, "the guard of this .aligned instruction differs between lanes");
  if (w.index / 4 * 4 + 4 > w.cta.warps.size())
    w.fail(Fault::operand, "the warp is in no whole warpgroup of four warps");
  PendingWgmma p;
  p.instruction = &i;
  p.group = w.wgmma_committed + 1;
  const Lanes scale = *w.at<uint32_t>(i.r[2]);
  if ((scale & lanes) != 0 && (scale & lanes) != lanes)
    w.fail(Fault::operand, "scale-d differs between lanes");
  p.accumulate = scale & lanes;
  p.b = uniform(w, i.r[1], "descriptor of B");
  const MatrixDescriptor b(p.b);
  check_descriptor(w, b, "B");
  const Access deed{w.cta.wgmma_actors[w.warpgroup()], p.group, w.here(), true, 0};
  if (!(i.mode[4] & a_in_registers)) {
    p.a = uniform(w, i.r[0], "descriptor of A");
    const MatrixDescriptor a(p.a);
    check_descriptor(w, a, "A");
    touch_matrix(w, a, i.mode[4] & transpose_a, w.index % 4 * 16, 16, deed, "this wgmma reads A at");
  }
  touch_matrix(w, b, i.mode[4] & transpose_b, 0, i.mode[0] * 8u, deed, "this wgmma reads B at");
  w.check_wgmma_registers(i, i.mode[6]);
  w.wgmma_live.push_back({&i, p.group});
  w.wgmma_queue.push_back(p);
  ++w.cta.touching;
  if (w.wgmma_queue.size() == 1) post_next(w);
}

void execute_fence(Warp& w, const Instruction&, Lanes) {
  w.require_converged();
  w.wgmma_fenced = true;
  ++w.fences;
}

void execute_commit(Warp& w, const Instruction&, Lanes) {
  w.require_converged();
  ++w.wgmma_committed;
  w.cluster().changed();
}

// A warp's wait covers the whole warpgroup, since wgmma is the warpgroup's: one warp may release a stage for
// all.
void execute_wait(Warp& w, const Instruction& i, Lanes) {
  w.require_converged();
  const int64_t target = int64_t{w.wgmma_committed} - i.immediate;
  if (target > 0)
    for (uint32_t k = w.warpgroup() * 4; k < std::min<size_t>(w.warpgroup() * 4 + 4, w.cta.warps.size());
         ++k) {
      const Warp& peer = *w.cta.warps[k];
      const bool pending = !peer.wgmma_queue.empty() && peer.wgmma_queue.front().group <= target;
      if (pending || (peer.alive && peer.wgmma_committed < target)) return w.retry(Wait::wgmma);
    }
  if (target <= 0) return;
  w.knowledge.seen.raise(w.cta.wgmma_actors[w.warpgroup()], static_cast<uint32_t>(target));
  std::erase_if(w.wgmma_live, [&](const auto& live) { return live.second <= target; });
}

void decode_shape(Decode& d) {
  for (std::string_view m : d.modifiers)
    if (m.starts_with("m64n")) {
      const uint32_t n = to_number(m.substr(4, m.find('k') - 4));
      if (n < 8 || n > 256 || n % 8)
        d.refuse(fmt::format("n = {}: multiples of 8 up to 256 are possible", n));
      d.out.mode[0] = static_cast<uint8_t>(n / 8);
      d.take(m);
      return;
    }
  d.refuse("it names no shape m64n..k..");
}

void decode_wgmma(Decode& d) {
  d.take_any({"sync", "aligned"});
  decode_shape(d);
  uint8_t flags = d.take("satfinite") ? saturate : 0;
  const Type to = d.take_type();
  const bool bits = d.take("b1");
  if (bits && (!d.take("b1") || !d.take("and") || !d.take("popc"))) d.refuse("b1 comes as .b1.b1.and.popc");
  const Type a = bits ? Type::u8 : d.take_type(), b = bits ? Type::u8 : d.take_type();
  if (bits) flags |= single_bits;
  d.done();
  const ElementType element = element_type(a);
  if (element.bytes == 0 || element_type(b).bytes != element.bytes ||
      element_type(b).integer != element.integer)
    d.refuse("these element types are not supported");
  d.require(element.integer ? to == Type::s32 : to == Type::f32 || to == Type::f16);
  const bool half = element.bytes == 2, registers = d.operand(1).kind == ptx::Operand::Kind::vector;
  if (registers) flags |= a_in_registers;
  const uint32_t n = d.out.mode[0] * 8u, count = to == Type::f16 ? n / 4 : n / 2;
  auto accumulators = Decode::parts(d.operand(0));
  if (accumulators.size() != count)
    d.refuse(fmt::format("{} accumulator registers; n = {} needs {}", accumulators.size(), n, count));
  for (const ptx::Operand* o : accumulators) d.list(d.destination(*o, Type::b32));
  if (registers) {
    auto from = Decode::parts(d.operand(1));
    if (from.size() != 4) d.refuse(fmt::format("{} registers of A; 4 are needed", from.size()));
    for (const ptx::Operand* o : from) d.list(d.source(*o, Type::b32));
  } else {
    d.out.r[0] = d.source(1, Type::b64);
  }
  d.out.r[1] = d.source(2, Type::b64);
  d.out.r[2] = d.source(3, Type::pred);
  if (!element.integer) {
    d.expect(6, half ? 8 : 6);
    for (size_t k = 0; k < 2; ++k) {
      const int64_t scale = d.immediate(4 + k);
      if (scale != 1 && scale != -1) d.refuse("the scale of A or B is 1 or -1");
      if (scale == -1) d.out.mode[5] |= static_cast<uint8_t>(1 << k);
    }
    if (half) {
      d.expect(registers ? 7 : 8, registers ? 7 : 8);
      if (!registers && d.immediate(6)) flags |= transpose_a;
      if (d.immediate(registers ? 6 : 7)) flags |= transpose_b;
    }
  } else {
    d.expect(4, 4);
  }
  // Accumulators and A stay in use: what else was read is done with at once.
  for (uint32_t k = 0; k < d.out.list_size; ++k) d.held.push_back(d.listed(k));
  d.out.mode[1] = static_cast<uint8_t>(to);
  d.out.mode[2] = static_cast<uint8_t>(a);
  d.out.mode[3] = static_cast<uint8_t>(b);
  d.out.mode[4] = flags;
  d.out.mode[6] = static_cast<uint8_t>(count);
  d.flow = Flow::accumulates;
  d.decides = {d.out.r[2]};
  d.out.execute = execute_wgmma;
}

template <Handler handler>
void decode_sync(Decode& d) {
  d.take_any({"sync", "aligned"});
  d.done();
  if (d.count()) d.out.immediate = d.immediate(0);
  d.out.execute = handler;
}

}  // namespace

void add_wgmma(DecodeTable& t) {
  t["wgmma.mma_async"] = decode_wgmma;
  t["wgmma.fence"] = decode_sync<execute_fence>;
  t["wgmma.commit_group"] = decode_sync<execute_commit>;
  t["wgmma.wait_group"] = decode_sync<execute_wait>;
}

}  // namespace ptxbuilder::runtime::emulator
