// Records accesses to shared memory by loads and stores, copies and products.
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/lint_kernel.h"
#include "ptxbuilder/analysis/matrix_descriptor.h"
#include "ptxbuilder/analysis/protocol_deeds.h"

namespace ptxbuilder::analysis {
namespace {

// Returns the bytes that wgmma reads from `lines` lines of a matrix, beginning with line `from` (PTX ISA,
// "Matrix Descriptor Format"). The bytes include all columns of K, and all lines that the swizzle mixes with
// the lines that are read.
std::vector<Span> spans_of_matrix(uint64_t descriptor, bool is_transposed, uint64_t from, uint64_t lines) {
  const uint64_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4,
                 stride = (descriptor >> 32 & 0x3fff) << 4, layout = descriptor >> 62;
  std::vector<Span> spans;
  if (layout == 0) {
    // An operand that is not swizzled consists of blocks of 8 x 16 bytes, and has two blocks along K.
    for (uint64_t line = from / 8; line < (from + lines) / 8; ++line)
      for (uint64_t k = 0; k < 2; ++k) spans.push_back({start + line * stride + k * leading, 128});
    return spans;
  }
  const uint64_t width = uint64_t{256} >> layout, first = start / width * width;
  if (!is_transposed)
    for (uint64_t line = from / 8; line < (from + lines) / 8; ++line)
      spans.push_back({first + line * stride, 8 * width});
  else
    for (uint64_t panel = from * 2 / width; panel * width < (from + lines) * 2; ++panel)
      for (uint64_t k = 0; k < 2; ++k) spans.push_back({first + panel * leading + k * stride, 8 * width});
  return spans;
}

// Returns a number that is equal for equal constants, or 0 if the value contains a register.
uint64_t constants(const Value& v) {
  if (v.kind == Value::Kind::integer) return std::hash<int64_t>()(v.value) * 2 + 1;
  if (v.kind != Value::Kind::vector) return 0;
  uint64_t all = 1;
  for (const Value& part : v.parts) {
    const uint64_t one = constants(part);
    if (one == 0) return 0;
    all = all * 0x9e3779b97f4a7c15 + one;
  }
  return all | 1;
}

}  // namespace

ProtocolDeeds::BulkGroups& ProtocolDeeds::bulk(const Walker& w, int lane) {
  BulkGroups& b = bulk_[{w.cta, w.warp * kLanes + lane}];
  if (b.component == kNone) b.component = order_.component();
  return b;
}

ProtocolDeeds::BulkGroups& ProtocolDeeds::copies(const Warp& warp, const Walker& w) {
  for (const Walker& other : warp)
    if (&other != &w && !other.has_ended)
      throw Refusal{w.pc, "lanes of a warp count groups of cp.async separately", {}, true};
  BulkGroups& c = copies_[{w.cta, w.warp}];
  if (c.component == kNone) c.component = order_.component();
  return c;
}

bool ProtocolDeeds::copy_in_threads(const Warp& warp, Walker& w, Lanes lanes) {
  const Operation& o = operation(w.pc);
  const auto bytes = number(w, o.operands[2]);
  std::vector<Span> spans;
  if (!bytes || !for_addresses(w, *addresses(o)[0], lanes, [&](const Order::Place& to, Lanes) {
        spans.push_back({to.address, *bytes});
        boxes_.add_write(spans.back());
      }))
    return false;
  const BulkGroups& c = copies(warp, w);
  order_.tick(w.view);
  order_.touch(w.view, {w.cta, std::move(spans), true, false, {c.component, c.begun + 1}, w.pc});
  return true;
}

bool ProtocolDeeds::access(Walker& w, int i, Deed deed, Lanes lanes) {
  const Operation& o = operation(i);
  uint64_t bytes = static_cast<uint64_t>(access_bytes(o));
  if (o.has("m8n8")) {
    bytes = 16;
    lanes &= o.has("x4") ? ~Lanes{0} : o.has("x2") ? 0xffffu : 0xffu;
  }
  const bool writes = deed == Deed::store;
  std::map<int, std::vector<Span>> spans;
  if (!for_addresses(w, *addresses(o)[0], lanes, [&](const Order::Place& from, Lanes) {
        spans[from.cta].push_back({from.address, bytes});
      }))
    return false;
  const Moment now = order_.tick(w.view);
  const uint64_t data = o.is("st") ? constants(*behind_address(o)) : 0;
  for (auto& [cta, of] : spans) {
    for (const Span& span : of)
      if (writes)
        boxes_.add_write(span);
      else
        boxes_.add_read(span);
    order_.touch(w.view, {cta, std::move(of), writes, false, now, i, ProtocolCode::is_word(o), data});
  }
  values_.compute(w, i, lanes);
  return true;
}

// Records an st.async. Its bytes are written through the generic proxy, at any time before the mbarrier
// counts them.
bool ProtocolDeeds::store_async(Walker& w, int i, Lanes lanes) {
  const Operation& o = operation(i);
  const auto all = addresses(o);
  if (all.size() < 2) throw Refusal{i, "this store has too few addresses", {}, true};
  const auto bytes = static_cast<uint64_t>(access_bytes(o));
  return for_pairs(w, *all[0], *all[1], lanes, [&](const Order::Place& to, const Order::Place& at_place) {
    boxes_.add_write({to.address, bytes});
    const Moment end = order_.copy(w.view, at_place, bytes, "", i);
    order_.touch(w.view, {to.cta, {{to.address, bytes}}, true, false, end, i});
  });
}

// Returns a string that identifies the tensor map of a copy by its address.
std::string ProtocolDeeds::map_of(Walker& w, const Value& v) {
  return terms_.text(terms_.resolved(values_.operand(w, v)[std::countr_zero(w.lanes)]));
}

bool ProtocolDeeds::copy_in(Walker& w, int i, Lanes lanes) {
  const Operation& o = operation(i);
  const auto all = addresses(o);
  const bool is_tensor = o.has("tensor"), is_multicast = o.has("multicast::cluster");
  if (all.size() < 3) throw Refusal{i, "this copy has too few addresses", {}, true};
  // Operands: [to], [from or map], the number of bytes (absent for a tensor), [mbarrier], and the mask of
  // CTAs.
  std::optional<uint64_t> bytes = 0, mask = 0;
  if (!is_tensor) bytes = number(w, o.operands[2]);
  if (is_multicast) {
    for (size_t n = o.operands.size(); n-- > 3;)
      if (o.operands[n - 1].kind == Value::Kind::address || o.operands[n - 1].kind == Value::Kind::vector) {
        mask = number(w, o.operands[n]);
        break;
      }
  }
  if (!bytes || !mask) return false;
  const std::string map = is_tensor ? map_of(w, *all[1]) : "";
  return for_pairs(w, *all[0], *all[2], lanes, [&](const Order::Place& to, const Order::Place& at_place) {
    if (is_tensor) boxes_.add_copy(map, to.address, true);
    for (int cta = 0; cta < static_cast<int>(code_.ctas()); ++cta) {
      if (is_multicast ? (*mask >> cta & 1) == 0 : cta != to.cta) continue;
      const Moment end =
          order_.copy(w.view, {is_multicast ? cta : at_place.cta, at_place.address}, *bytes, map, i);
      order_.touch(w.view, {cta, {{to.address, is_tensor ? boxes_.bytes(map) : *bytes}}, true, true, end, i});
    }
  });
}

bool ProtocolDeeds::copy_out(Walker& w, int i, Lanes lanes) {
  const Operation& o = operation(i);
  const auto all = addresses(o);
  const bool is_tensor = o.has("tensor");
  if (all.size() < 2) throw Refusal{i, "this copy has too few addresses", {}, true};
  const auto bytes = is_tensor ? std::optional<uint64_t>(0) : number(w, o.operands[2]);
  if (!bytes) return false;
  const std::string map = is_tensor ? map_of(w, *all[0]) : "";
  const LaneValues from = values_.operand(w, *all[1]);
  for (int lane = 0; lane < kLanes; ++lane)
    if ((lanes >> lane & 1) != 0 && !number(w, from, lane)) return false;
  for_lanes(lanes, [&](int lane) {
    const Order::Place source = place(w, *number(w, from, lane));
    if (is_tensor) boxes_.add_copy(map, source.address, false);
    const BulkGroups& b = bulk(w, lane);
    order_.tick(w.view);
    order_.touch(w.view, {source.cta,
                          {{source.address, is_tensor ? boxes_.bytes(map) : *bytes}},
                          false,
                          true,
                          {b.component, b.begun + 1},
                          i});
  });
  return true;
}

bool ProtocolDeeds::multiply(Walker& w, int i) {
  const Operation& o = operation(i);
  const bool has_a = o.operands[1].kind != Value::Kind::vector;
  const auto a = has_a ? number(w, o.operands[1]) : std::optional<uint64_t>(0), b = number(w, o.operands[2]);
  if (!a || !b) return false;
  std::vector<Span> spans;
  if (has_a)
    spans =
        spans_of_matrix(*a, matrix_operand(o, 1).is_transposed, static_cast<uint64_t>(w.warp % 4) * 16, 16);
  const MatrixOperand columns = matrix_operand(o, 2);
  const std::vector<Span> of_b =
      spans_of_matrix(*b, columns.is_transposed, 0, static_cast<uint64_t>(columns.lines));
  spans.insert(spans.end(), of_b.begin(), of_b.end());
  for (const Span& span : spans) boxes_.add_read(span);
  order_.tick(w.view);
  Products& p = products(w);
  ++w.products;
  p.begun[at(w.warp % 4)] = std::max(p.begun[at(w.warp % 4)], w.products);
  if (p.came.size() < w.products) p.came.resize(w.products);
  p.came[w.products - 1].join(w.view.came);
  order_.touch(w.view,
               {w.cta, std::move(spans), false, true, {p.component, static_cast<uint32_t>(w.products)}, i});
  return true;
}

}  // namespace ptxbuilder::analysis
