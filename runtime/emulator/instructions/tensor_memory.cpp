// Executes instructions on tensor memory, and products that accumulate in it (PTX ISA, "TensorCore 5th
// Generation Family Instructions"). Products are those of one CTA with 64 or 128 rows. Their operands are in
// shared memory; A may also be in tensor memory. A CTA's products, copies and commits are executed in order,
// asynchronously to the threads.
#include "runtime/emulator/instructions/tensor_memory.h"

#include <fmt/format.h>

#include <bit>

#include "runtime/emulator/instructions/matmul.h"
#include "runtime/emulator/instructions/matrix_operand.h"
#include "runtime/emulator/instructions/mbarrier.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {

TensorMemory& allocated_at(Warp& w, const TensorPlace& at, uint32_t count, const char* what, int lane) {
  if (!w.cta.tensor || !w.cta.tensor->has(at.column, count))
    w.fail(Fault::out_of_bounds,
           fmt::format("{} columns {} to {} of tensor memory, which the CTA has not allocated", what,
                       at.column, at.column + count - 1),
           lane);
  return *w.cta.tensor;
}

namespace {

using ColumnDeed = TensorMemory::Deed;

// Reports an earlier access to a column if nothing orders it before the current access.
void require_over(Warp& w, const ColumnDeed& earlier, bool wrote, uint32_t column, const char* what,
                  int lane) {
  if (!w.cluster().checks || earlier.time == 0) return;
  if (w.causality.knowledge().seen[earlier.actor] >= earlier.time) return;
  w.find(Fault::race,
         fmt::format("{} column {} of tensor memory, but {}, and nothing orders this after that", what,
                     column, w.cluster().describe({earlier.actor, earlier.time, earlier.pc}, wrote)),
         lane);
}

using TensorOperation = TensorMemory::Operation;

// Returns the tcgen05 instruction that is missing between an earlier access and an operation that the warp
// starts now, or null if none is missing. Without this instruction, the access is not ordered before the
// operation, even if threads have met in between (PTX ISA, tcgen05, "Memory Consistency Model"). Products
// follow earlier products and copies in the order of issue; any other earlier access must be done.
const char* missing_order(Warp& w, const ColumnDeed& earlier, TensorOperation now) {
  TensorMemory& memory = *w.cta.tensor;
  const bool is_behind = earlier.is_behind();
  const TensorMemory::WarpOrder &mine = memory.warps[w.index], &other = memory.warps[earlier.warp];
  const char* wait = earlier.operation == TensorOperation::store ? "tcgen05.wait::st" : "tcgen05.wait::ld";
  if (&mine == &other) return is_behind || mine.done.has(earlier) ? nullptr : wait;
  const auto is_told = [&](const Clock& clock) {
    return is_behind && now != TensorOperation::product ? clock[earlier.actor] >= earlier.time
                                                        : other.fenced[clock[other.fences]].has(earlier);
  };
  if (is_told(mine.seen)) return nullptr;
  if (is_told(w.causality.knowledge().seen)) return "tcgen05.fence::after_thread_sync";
  return other.done.has(earlier) ? "tcgen05.fence::before_thread_sync" : wait;
}

}  // namespace

void require_ordered(Warp& w, const ColumnDeed& earlier, bool wrote, TensorOperation now, uint32_t column,
                     const char* what, int lane) {
  if (!w.cluster().checks || earlier.time == 0) return;
  const bool is_in_order = earlier.is_behind() && now == TensorOperation::product;
  if (!is_in_order) require_over(w, earlier, wrote, column, what, lane);
  if (const char* missing = missing_order(w, earlier, now))
    w.find(
        Fault::race,
        fmt::format("{} column {} of tensor memory, which the {} of {} (warp {}) {}, without {} in between",
                    what, column,
                    earlier.operation == TensorOperation::product ? "product"
                    : earlier.operation == TensorOperation::copy  ? "tcgen05.cp"
                    : earlier.operation == TensorOperation::store ? "tcgen05.st"
                                                                  : "tcgen05.ld",
                    w.grid().kernel.place(earlier.pc), earlier.warp, wrote ? "writes" : "reads", missing),
        lane);
}

namespace {

ColumnDeed next_deed(Warp& w, const ColumnDeed& deed, TensorOperation operation) {
  TensorMemory::WarpOrder& order = w.cta.tensor->warps[w.index];
  ColumnDeed next = deed;
  next.warp = w.index;
  next.number = ++order.issued;
  next.operation = operation;
  if (next.is_behind()) order.done.products = next.number;
  return next;
}

TensorMemory::Issuer& issuer(Warp& w, int lane) {
  TensorMemory::Issuer& of = w.cta.tensor->issuers[{w.index, lane}];
  if (of.actor == 0) of.actor = w.cluster().new_actor({ActorName::Kind::tensor, &w.cta, 0});
  return of;
}

}  // namespace

IssuedDeed issue(Warp& w, TensorOperation operation, int lane) {
  TensorMemory::Issuer& by = issuer(w, lane);
  const Access deed{by.actor, ++by.issued, w.here(), true, 0};
  return {deed, next_deed(w, {deed.actor, deed.time, deed.pc}, operation)};
}

namespace {

// --- allocation ---

struct AllocateColumns {
  AddressOperand dst;
  Register count;
};

uint32_t column_count(Warp& w, Register r) {
  const uint32_t count = w.at<uint32_t>(r)[0];
  if (count < 32 || count > TensorMemory::columns || !std::has_single_bit(count))
    w.fail(Fault::operand,
           fmt::format("{} columns were requested, but tensor memory is allocated by 32, 64, 128, 256 or 512",
                       count));
  return count;
}

void execute_allocate_columns(Warp& w, const AllocateColumns& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const uint32_t count = column_count(w, x.count);
  if (!w.cta.tensor) {
    w.cta.tensor = std::make_unique<TensorMemory>();
    w.cta.tensor->warps.resize(w.cta.warps.size());
    for (TensorMemory::WarpOrder& order : w.cta.tensor->warps)
      order.fences = w.cluster().new_actor({ActorName::Kind::none, &w.cta, 0});
  }
  TensorMemory& memory = *w.cta.tensor;
  if (!memory.may_allocate)
    w.fail(Fault::operand, "the CTA allocates tensor memory after its tcgen05.relinquish_alloc_permit");
  const auto column = memory.allocate(count, w.here());
  if (!column)
    w.fail(Fault::deadlock, fmt::format("{} columns of tensor memory are not free in one piece, so the CTA "
                                        "would wait for itself to free some",
                                        count));
  const int lane = __builtin_ctz(lanes);
  Cta* owner;
  uint32_t offset;
  std::byte* place = w.place(w.address(x.dst, lane), 4, Space::shared, lane, owner, offset);
  w.touch({*owner, offset, 4, true, lane});
  std::memcpy(place, &*column, 4);
}

struct FreeColumns {
  Register address, count;
};

void execute_free_columns(Warp& w, const FreeColumns& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const uint32_t count = column_count(w, x.count);
  const TensorPlace at(w.at<uint32_t>(x.address)[0]);
  if (!w.cta.tensor || at.lane != 0 || !w.cta.tensor->free(at.column, count))
    w.fail(Fault::operand,
           fmt::format("{} columns from column {} are not an allocation of tensor memory", count, at.column));
  for (uint32_t h = 0; h < TensorMemory::lanes / TensorMemory::half; ++h)
    for (uint32_t c = at.column; c < at.column + count; ++c) {
      const TensorMemory::Column& deeds = w.cta.tensor->deeds(h, c);
      require_over(w, deeds.wrote, true, c, "this gives back", -1);
      require_over(w, deeds.read, false, c, "this gives back", -1);
    }
}

void execute_relinquish(Warp& w, Lanes lanes) {
  if (!w.converged(lanes)) return;
  if (w.cta.tensor) w.cta.tensor->may_allocate = false;
}

// --- loads and stores of .32x32b ---

struct TensorTransfer {
  AddressOperand address;
  RegisterList data;
};

template <bool store>
void execute_transfer(Warp& w, const TensorTransfer& x, Lanes lanes) {
  if (!w.converged(lanes)) return;
  const auto data = w.listed(x.data);
  const char* what = store ? "this writes" : "this reads";
  const TensorPlace at(static_cast<uint32_t>(w.address(x.address, 0)));
  for (int lane = 1; lane < 32; ++lane)
    if (w.address(x.address, lane) != w.address(x.address, 0))
      w.fail(Fault::operand, "the address in tensor memory differs between lanes", lane);
  const uint32_t mine = w.index % 4;
  if (at.lane != mine * TensorMemory::quarter)
    w.fail(Fault::out_of_bounds,
           fmt::format("{} tensor memory from lane {} on; warp {} reaches lanes {} to {}", what, at.lane,
                       w.index, mine * 32, mine * 32 + 31));
  TensorMemory& memory = allocated_at(w, at, x.data.size, what, -1);
  const ColumnDeed now = next_deed(w, {w.causality.actor(), w.causality.time(), w.here()},
                                   store ? TensorOperation::store : TensorOperation::load);
  if constexpr (!store) {
    std::erase_if(w.loading, [&](const TensorLoad& load) { return load.pc == now.pc; });
    w.loading.push_back({now.pc, x.data});
  }
  for (uint32_t k = 0; k < x.data.size; ++k) {
    bool is_written = store;
    for (uint32_t half = 2 * mine; half < 2 * mine + 2; ++half) {
      TensorMemory::Column& deeds = memory.deeds(half, at.column + k);
      require_ordered(w, deeds.wrote, true, now.operation, at.column + k, what, -1);
      is_written |= deeds.wrote.time != 0;
      if (store) {
        require_ordered(w, deeds.read, false, now.operation, at.column + k, what, -1);
        deeds = {now, {}};
      } else {
        deeds.read = now;
      }
    }
    if (!is_written && w.cluster().checks)
      w.find(Fault::uninitialised,
             fmt::format("this reads column {} of tensor memory, which nothing had written", at.column + k));
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t& word = memory.at(at.lane + lane, at.column + k);
      uint32_t& r = w.at<uint32_t>(data[k])[lane];
      store ? word = r : r = word;
    }
  }
}

// Waits for transfers. A transfer is executed when it is issued, so a wait only updates what the checks know.
template <bool store>
void execute_transfer_wait(Warp& w, Lanes lanes) {
  if (!w.converged(lanes)) return;
  if constexpr (!store) w.loading.clear();
  if (!w.cta.tensor) return;
  TensorMemory::WarpOrder& order = w.cta.tensor->warps[w.index];
  (store ? order.done.stores : order.done.loads) = order.issued;
}

void fence_before(Warp& w) {
  if (!w.cta.tensor) return;
  TensorMemory::WarpOrder& order = w.cta.tensor->warps[w.index];
  w.causality.learn(order.fences, static_cast<uint32_t>(order.fenced.size()));
  order.fenced.push_back(order.done);
}

void execute_fence_before(Warp& w, Lanes) { fence_before(w); }

void execute_fence_after(Warp& w, Lanes) {
  if (w.cta.tensor) w.cta.tensor->warps[w.index].seen = w.causality.knowledge().seen;
}

// --- products ---

struct TensorProduct {
  AddressOperand d;
  AddressOperand a_place;  // address in tensor memory, if a_is_tensor
  Register a, b, what, accumulate;
  Type kind;  // f16, tf32, e4m3 for .kind::f8f6f4, or s8 for .kind::i8
  bool a_is_tensor;
};

// The instruction descriptor (PTX ISA, "Instruction descriptor" of tcgen05).
//   28..24  22..17  16    15    14..13  12..10  9..7  5..4  3     2
//   m >> 4  n >> 3  B mn  A mn  negate  B       A     D     sat.  sparse
struct TensorProductShape {
  int m, n, k;
  bool a_mn, b_mn, negate, saturate;
  Type d;
  ElementType a, b;
};

Type product_type(Warp& w, Type kind, uint32_t code, const char* which) {
  const auto refuse = [&]() -> Type {
    w.fail(Fault::operand, fmt::format("the instruction descriptor has {} for the type of {}, which this "
                                       "kind does not have or the emulator does not execute",
                                       code, which));
  };
  switch (kind) {
    case Type::f16:
      return code == 0 ? Type::f16 : code == 1 ? Type::bf16 : refuse();
    case Type::tf32:
      return code == 2 ? Type::tf32 : refuse();
    case Type::s8:
      return code == 0 ? Type::u8 : code == 1 ? Type::s8 : refuse();
    default:
      return code == 0 ? Type::e4m3 : code == 1 ? Type::e5m2 : refuse();
  }
}

TensorProductShape product_shape(Warp& w, Type kind, uint32_t bits, int lane) {
  TensorProductShape s{};
  s.m = static_cast<int>(bits >> 24 & 31) * 16;
  s.n = static_cast<int>(bits >> 17 & 63) * 8;
  s.a = element_type(product_type(w, kind, bits >> 7 & 7, "A"));
  s.b = element_type(product_type(w, kind, bits >> 10 & 7, "B"));
  s.k = 32 / s.a.bytes;
  s.a_mn = bits >> 15 & 1;
  s.b_mn = bits >> 16 & 1;
  s.negate = (bits >> 13 & 1) != (bits >> 14 & 1);
  s.saturate = bits >> 3 & 1;
  const uint32_t d = bits >> 4 & 3;
  s.d = kind == Type::s8 ? Type::s32 : d == 0 ? Type::f16 : Type::f32;
  if (d != (kind == Type::s8 ? 2u : d == 0 && kind != Type::tf32 ? 0u : 1u))
    w.fail(Fault::operand,
           fmt::format("the instruction descriptor has {} for the type of D, which the operands do not allow",
                       d),
           lane);
  if (s.m != 64 && s.m != 128)
    w.fail(Fault::operand, fmt::format("the product has {} rows, but one CTA multiplies 64 or 128", s.m),
           lane);
  if (const int step = s.m == 64 ? 8 : 16; s.n < step || s.n > 256 || s.n % step)
    w.fail(Fault::operand,
           fmt::format("the product has {} columns, but with {} rows it must have a multiple of {} up to 256",
                       s.n, s.m, step),
           lane);
  if ((s.a_mn || s.b_mn) && s.a.bytes != 2)
    w.fail(Fault::unsupported, "MN-major matrices whose elements do not have 16 bits", lane);
  if (bits >> 2 & 1)
    w.fail(Fault::operand, "the descriptor is for a sparse product, but the instruction is not", lane);
  return s;
}

struct PendingProduct {
  TensorProductShape shape;
  uint64_t a, b;
  uint32_t lane, column;
  bool accumulate, a_is_tensor;

  // The 64 rows of a product are in one half of each warp's lanes.
  uint32_t lane_of(int row) const {
    return shape.m == 64 ? lane + static_cast<uint32_t>(row / 16 * 32 + row % 16)
                         : static_cast<uint32_t>(row);
  }
};

template <class T, class Read, class Multiply>
void compute_tile(Cta& cta, const PendingProduct& p, Read read, Multiply multiply) {
  const TensorProductShape& s = p.shape;
  std::vector<T> a(static_cast<size_t>(s.m * s.k)), b(static_cast<size_t>(s.k * s.n)),
      c(static_cast<size_t>(16 * s.n));
  const auto read_a = [&](const std::byte* at) { return read(s.a, at); };
  if (p.a_is_tensor)
    for (int row = 0; row < s.m; ++row) {
      const auto* of_row = reinterpret_cast<const std::byte*>(
          &cta.tensor->at(static_cast<uint32_t>(row), TensorPlace(static_cast<uint32_t>(p.a)).column));
      for (int k = 0; k < s.k; ++k) a[static_cast<size_t>(row * s.k + k)] = read_a(of_row + k * s.a.bytes);
    }
  else
    read_matrix(cta, MatrixDescriptor(p.a), s.a_mn, 0, static_cast<uint32_t>(s.m), s.a.bytes, false, a.data(),
                s.k, read_a);
  read_matrix(cta, MatrixDescriptor(p.b), s.b_mn, 0, static_cast<uint32_t>(s.n), s.b.bytes, true, b.data(),
              s.k, [&](const std::byte* at) { return read(s.b, at); });
  if (s.negate)
    for (T& x : a) x = -x;
  for (int row = 0; row < s.m; row += 16) {
    const auto word = [&](int k) -> uint32_t& {
      return cta.tensor->at(p.lane_of(row + k / s.n), p.column + static_cast<uint32_t>(k % s.n));
    };
    const bool half = s.d == Type::f16;
    for (int k = 0; k < 16 * s.n; ++k) {
      T& sum = c[static_cast<size_t>(k)];
      sum = !p.accumulate ? T{}
            : half        ? static_cast<T>(from_f16(static_cast<uint16_t>(word(k))))
                          : std::bit_cast<T>(word(k));
    }
    multiply(a.data() + row * s.k, b.data(), c.data(), s.n, s.k);
    for (int k = 0; k < 16 * s.n; ++k) {
      const T sum = c[static_cast<size_t>(k)];
      word(k) = half ? to_f16(static_cast<float>(sum)) : std::bit_cast<uint32_t>(sum);
    }
  }
}

}  // namespace

// Posts the execution of the oldest operation in the CTA's queue. Each of the other operations is posted when
// its predecessor has been executed.
static void post_oldest(Warp& w) {
  w.cluster().post([&w] {
    std::deque<std::function<void()>>& queue = w.cta.tensor->queue;
    queue.front()();
    queue.pop_front();
    --w.cta.touching;
    w.cluster().changed();
    if (!queue.empty()) post_oldest(w);
  });
}

void put_behind(Warp& w, std::function<void()> complete) {
  std::deque<std::function<void()>>& queue = w.cta.tensor->queue;
  queue.push_back(std::move(complete));
  ++w.cta.touching;
  if (queue.size() == 1) post_oldest(w);
}

namespace {

// Checks and records the reads of A in tensor memory, whose columns must have been written.
void touch_a(Warp& w, TensorMemory& memory, const PendingProduct& p, const ColumnDeed& now, int lane) {
  constexpr uint32_t columns = 8;  // columns per 32 bytes along K
  const TensorPlace at(static_cast<uint32_t>(p.a));
  if (p.shape.m != 128) w.fail(Fault::unsupported, "A in tensor memory with other than 128 rows", lane);
  if (p.shape.a_mn || at.lane != 0)
    w.fail(Fault::operand, "A in tensor memory must be K-major and begin at lane 0", lane);
  allocated_at(w, at, columns, "this product reads", lane);
  for (uint32_t half = 0; half < TensorMemory::lanes / TensorMemory::half; ++half)
    for (uint32_t c = at.column; c < at.column + columns; ++c) {
      TensorMemory::Column& deeds = memory.deeds(half, c);
      require_ordered(w, deeds.wrote, true, now.operation, c, "this product reads", lane);
      if (deeds.wrote.time == 0 && w.cluster().checks)
        w.find(Fault::uninitialised,
               fmt::format("this product reads column {} of tensor memory, which nothing had written", c),
               lane);
      deeds.read = now;
    }
}

void execute_product(Warp& w, const TensorProduct& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    const TensorPlace at(static_cast<uint32_t>(w.address(x.d, lane)));
    const TensorProductShape shape = product_shape(w, x.kind, w.at<uint32_t>(x.what)[lane], lane);
    const bool is_half = shape.m == 64;
    if (at.lane != 0 && !(is_half && at.lane == TensorMemory::half))
      w.fail(
          Fault::operand,
          fmt::format("D begins at lane {}, but 128 rows must begin at 0, and 64 rows at 0 or 16", at.lane),
          lane);
    TensorMemory& memory = allocated_at(w, at, static_cast<uint32_t>(shape.n), "this product writes", lane);
    const uint64_t a = x.a_is_tensor ? w.address(x.a_place, lane) : w.at<uint64_t>(x.a)[lane];
    const PendingProduct p{shape,        a,         w.at<uint64_t>(x.b)[lane],
                           at.lane,      at.column, (*w.at<uint32_t>(x.accumulate) >> lane & 1) != 0,
                           x.a_is_tensor};
    const auto [deed, now] = issue(w, TensorOperation::product, lane);
    for (const auto& [name, bits, mn, rows, what] :
         {std::tuple{"A", p.a, shape.a_mn, shape.m, "this product reads A at"},
          std::tuple{"B", p.b, shape.b_mn, shape.n, "this product reads B at"}}) {
      if (p.a_is_tensor && *name == 'A') continue;
      const MatrixDescriptor d(bits);
      check_descriptor(w, d, name);
      if ((bits >> 46 & 7) != 1)
        w.fail(Fault::operand, "bits 48 to 46 of a matrix descriptor of tcgen05 must be 0b001", lane);
      touch_matrix(w, d, mn, 0, static_cast<uint32_t>(rows), 32, deed, what);
    }
    if (p.a_is_tensor) touch_a(w, memory, p, now, lane);
    for (uint32_t half = at.lane / TensorMemory::half; half < TensorMemory::lanes / TensorMemory::half;
         half += is_half ? 2 : 1)
      for (uint32_t c = at.column; c < at.column + static_cast<uint32_t>(shape.n); ++c) {
        TensorMemory::Column& deeds = memory.deeds(half, c);
        require_ordered(w, deeds.wrote, true, now.operation, c, "this product writes", lane);
        require_ordered(w, deeds.read, false, now.operation, c, "this product writes", lane);
        if (p.accumulate && deeds.wrote.time == 0 && w.cluster().checks)
          w.find(Fault::uninitialised,
                 fmt::format("this product adds to column {} of tensor memory, which nothing had written", c),
                 lane);
        deeds = {now, {}};
      }
    put_behind(w, [&w, p] {
      if (p.shape.a.integer)
        compute_tile<int32_t>(
            w.cta, p, [](const ElementType& e, const std::byte* from) { return e.whole(from); },
            [&](const int32_t* a, const int32_t* b, int32_t* c, int n, int k) {
              multiply(a, b, c, n, k, p.shape.saturate);
            });
      else
        compute_tile<float>(
            w.cta, p, [](const ElementType& e, const std::byte* from) { return e.real(from); },
            [](const float* a, const float* b, float* c, int n, int k) { multiply(a, b, c, n, k); });
    });
  });
}

struct CommitProducts {
  AddressOperand barrier;
};

// Executes tcgen05.commit: an arrival at an mbarrier once all earlier products of the thread are done. A
// thread that waits for the arrival learns that these products are done. It also learns what the committing
// thread knew, for example that the copies of the products' operands are done. The instruction also acts as a
// tcgen05.fence::before_thread_sync.
void execute_commit_products(Warp& w, const CommitProducts& x, Lanes lanes) {
  for_lanes(lanes, [&](int lane) {
    if (!w.cta.tensor)
      w.fail(Fault::operand, "the CTA has no tensor memory, so there is no product to commit", lane);
    Mbarrier& m = mbarrier_at(w, w.address(x.barrier, lane), lane);
    fence_before(w);
    for (Observer* o : w.cluster().observers.mbarrier_arrival) o->mbarrier_arrival(w, m, lane);
    put_behind(
        w, [&w, &m, lane, until = issuer(w, lane), i = w.instruction, known = w.causality.release_of(lane)] {
          w.instruction = i;
          if (w.cluster().checks) m.gathered.join(known);
          if (w.cluster().checks && until.issued) m.gathered.seen.raise(until.actor, until.issued);
          arrive(w, m, 1, false, lane);
        });
  });
}

void decode_product(Decode& d) {
  if (d.has("cta_group::2")) d.refuse("the emulator executes products of one CTA");
  if (d.find("sp_meta") || d.find("disable_output_lane") || d.find("scale_input_d") || d.find("scale_a") ||
      d.has("ashift"))
    d.refuse("the emulator executes dense products, without scales, masks or shifts");
  const Type kind = d.has("kind::f16")      ? Type::f16
                    : d.has("kind::tf32")   ? Type::tf32
                    : d.has("kind::f8f6f4") ? Type::e4m3
                                            : Type::s8;
  const bool a_is_tensor = d.operand(1).kind == ptx_text::Operand::Kind::address;
  const TensorProduct x{d.address(d["d"]),
                        a_is_tensor ? d.address(d["a"]) : AddressOperand{},
                        a_is_tensor ? no_register : d.source(d["a"], Type::b64),
                        d.source(d["b"], Type::b64),
                        d.source(d["idesc"], Type::b32),
                        d.source(d["enable_input_d"], Type::pred),
                        kind,
                        a_is_tensor};
  d.needs_all();
  d.run<execute_product>(x);
}

void decode_tensor_transfer(Decode& d, bool store) {
  if (!d.has("32x32b") || d.has("pack::16b") || d.has("unpack::16b"))
    d.refuse("the emulator executes .32x32b without packing");
  const AddressOperand address = d.address(d["taddr"]);
  const auto parts = Decode::parts(d["r"]);
  if (store) return d.run<execute_transfer<true>>({address, d.list(d.sources(parts, Type::b32))});
  const std::vector<Register> loaded = d.destinations(parts, Type::b32);
  d.held = loaded;
  d.run<execute_transfer<false>>({address, d.list(loaded)});
}

}  // namespace

void add_tensor_memory(DecodeTable& t) {
  t["tcgen05.alloc"] = [](Decode& d) {
    if (d.has("cta_group::2")) d.refuse("the emulator allocates for one CTA");
    const AllocateColumns x{d.address(d["dst"]), d.source(d["n_cols"], Type::u32)};
    d.needs_all();
    d.run<execute_allocate_columns>(x);
  };
  t["tcgen05.dealloc"] = [](Decode& d) {
    const FreeColumns x{d.source(d["taddr"], Type::b32), d.source(d["n_cols"], Type::u32)};
    d.needs_all();
    d.run<execute_free_columns>(x);
  };
  t["tcgen05.relinquish_alloc_permit"] = [](Decode& d) { d.run<execute_relinquish>(); };
  t["tcgen05.ld"] = [](Decode& d) { decode_tensor_transfer(d, false); };
  t["tcgen05.st"] = [](Decode& d) { decode_tensor_transfer(d, true); };
  t["tcgen05.wait::ld"] = [](Decode& d) { d.run<execute_transfer_wait<false>>(); };
  t["tcgen05.wait::st"] = [](Decode& d) { d.run<execute_transfer_wait<true>>(); };
  t["tcgen05.fence::before_thread_sync"] = [](Decode& d) { d.run<execute_fence_before>(); };
  t["tcgen05.fence::after_thread_sync"] = [](Decode& d) { d.run<execute_fence_after>(); };
  t["tcgen05.mma"] = decode_product;
  t["tcgen05.cp"] = decode_tensor_copy;
  t["tcgen05.commit"] = [](Decode& d) {
    if (d.has("cta_group::2") || d.has("multicast::cluster"))
      d.refuse("the emulator commits products of one CTA");
    d.run<execute_commit_products>({d.address(d["mbar"])});
  };
}

}  // namespace ptxbuilder::runtime::emulator
