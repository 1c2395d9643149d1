#include "ptxbuilder/analysis/protocol_code.h"

#include <algorithm>
#include <set>

#include "ptxbuilder/analysis/definitions.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {
namespace {

bool is_in_shared(const Operation& o) { return o.has("shared", "shared::cta", "shared::cluster"); }

Deed deed_of_mbarrier(const Operation& o) {
  if (o.has("init")) return Deed::init;
  if (o.has("arrive") && !o.has("noComplete")) return Deed::arrive;
  if (o.has("expect_tx")) return Deed::expect;
  if (o.has("try_wait", "test_wait") && o.has("parity")) return Deed::wait;
  return Deed::unknown;
}

Deed deed_of_copy(const Operation& o) {
  if (!o.has("async")) return Deed::none;
  if (o.has("prefetch")) return Deed::none;
  if (!o.has("bulk")) {
    if (o.has("mbarrier")) return Deed::unknown;
    if (o.has("commit_group")) return Deed::thread_commit;
    return o.has("wait_group", "wait_all") ? Deed::thread_wait : Deed::thread_copy;
  }
  if (o.has("commit_group")) return Deed::bulk_commit;
  if (o.has("wait_group")) return Deed::bulk_wait;
  const bool from_shared = o.has("bulk_group");
  if (from_shared) return Deed::copy_out;
  const bool from_global = o.has("global", "tensor");
  return o.is("cp") && o.has("mbarrier::complete_tx::bytes") && from_global ? Deed::copy_in : Deed::unknown;
}

Deed deed_of(const Operation& o) {
  if (o.is("bra")) return Deed::branch;
  if (o.is("trap")) return Deed::trap;
  if (o.ends()) return Deed::end;
  if (o.is("mbarrier")) return deed_of_mbarrier(o);
  if (o.is("cp")) return deed_of_copy(o);
  if (o.is("wgmma")) {
    if (o.is_wgmma()) return Deed::wgmma;
    return o.has("commit_group") ? Deed::wgmma_commit : o.has("wait_group") ? Deed::wgmma_wait : Deed::none;
  }
  if (o.is("barrier") && o.has("cluster")) return o.has("arrive") ? Deed::cluster_arrive : Deed::cluster_wait;
  if (o.is("bar") && o.has("warp")) return Deed::warp_sync;
  if (o.is_barrier()) return o.has("red") ? Deed::unknown : Deed::barrier;
  if (o.is("membar") || (o.is("fence") && o.has("mbarrier_init", "cluster"))) return Deed::fence_init;
  if (o.is("fence") && o.has("async", "async::generic") && !o.has("global")) return Deed::fence_proxy;
  if (o.is("setmaxnreg")) return o.has("inc") ? Deed::registers_more : Deed::registers_less;
  if (o.is("ldmatrix") || (o.is("ld") && is_in_shared(o))) return Deed::load;
  if (o.is("stmatrix") || (o.is("st", "atom", "red") && is_in_shared(o)))
    return !o.has("async") ? Deed::store : o.is("st") ? Deed::store_async : Deed::unknown;
  if (o.is("red") && o.has("async")) return o.has("bulk_group") ? Deed::copy_out : Deed::unknown;
  if (o.is("call", "brx", "tcgen05", "clusterlaunchcontrol")) return Deed::unknown;
  return o.writes.empty() ? Deed::none : Deed::compute;
}

// Returns whether a load or a store does not name its state space.
bool is_generic(const Operation& o) {
  constexpr std::string_view spaces[] = {"global", "local", "param", "const", "tensor"};
  const bool accesses = o.is("ld", "st", "atom", "red");
  return accesses && !is_in_shared(o) &&
         std::none_of(std::begin(spaces), std::end(spaces), [&](auto space) { return o.has(space); });
}

bool counts_always(Deed deed) {
  return deed != Deed::none && deed != Deed::compute && deed != Deed::branch && deed != Deed::end;
}

void collect_registers(const Value& v, std::vector<int>& registers) {
  if (v.kind == Value::Kind::reg) registers.push_back(v.number);
  for (const Value& part : v.parts) collect_registers(part, registers);
}

}  // namespace

ProtocolCode::ProtocolCode(const Code& of) : code(of), graph(Graph::of(of)) {
  cta = code.cta_shape();
  for (const ptx_text::Directive& d : code.function->directives) {
    if (d.tokens[0] != ".reqnctapercluster") continue;
    const std::vector<int64_t> numbers = numbers_of(d);
    for (size_t i = 0; i < std::min(numbers.size(), cluster.size()); ++i)
      cluster[i] = std::clamp<int64_t>(numbers[i], 0, kMostCtas + 1);
  }
  uint64_t next = hopper::reserved_shared_bytes;
  const auto place = [&](bool open) {
    for (size_t v = 0; v < code.variables.size(); ++v) {
      const Variable& variable = code.variables[v];
      if (variable.space != ".shared" || variable.is_open() != open) continue;
      const auto align = static_cast<uint64_t>(std::max<int64_t>(variable.align, open ? 1024 : 16));
      next = (next + align - 1) / align * align;
      places[static_cast<int>(v)] = next;
      next += static_cast<uint64_t>(variable.bytes);
    }
  };
  place(false), place(true);
  find_deeds();
  find_spins();
  find_joins();
  find_counting();
}

bool ProtocolCode::is_word(const Operation& o) {
  return o.is("atom", "red") || (o.is("ld", "st") && (o.has("volatile", "relaxed", "acquire", "release")));
}

void ProtocolCode::find_deeds() {
  for (const Operation& o : code.operations) {
    deeds.push_back(deed_of(o));
    has_generic = has_generic || is_generic(o);
    has_waits = has_waits || o.is_mbarrier_wait();
    has_thread_copies = has_thread_copies || deeds.back() == Deed::thread_copy;
    has_words = has_words || (is_in_shared(o) && is_word(o));
    has_order = has_order ||
                (counts_always(deeds.back()) && deeds.back() != Deed::trap && deeds.back() != Deed::unknown);
  }
}

// Finds the waits that are repeated until they succeed. The innermost loop around such a wait has no other
// effect on the protocol.
void ProtocolCode::find_spins() {
  spins.assign(code.operations.size(), false);
  for (size_t i = 0; i < spins.size(); ++i) {
    if (deeds[i] != Deed::wait) continue;
    const int loop = graph.blocks[at(graph.block_of[i])].loop;
    bool alone = loop != kNone;
    if (alone)
      for (int block : graph.loops[at(loop)].blocks)
        for (int o = graph.blocks[at(block)].first; o < graph.blocks[at(block)].last; ++o)
          alone = alone && (at(o) == i || !counts_always(deeds[at(o)]));
    spins[i] = alone;
    has_peeks = has_peeks || !alone;
  }
}

void ProtocolCode::find_joins() {
  // The edges of the graph are reversed, and its root is a node after all exits.
  const size_t count = graph.blocks.size();
  Edges successors(count + 1), predecessors(count + 1);
  for (size_t b = 0; b < count; ++b) {
    const auto add = [&](size_t to) {
      successors[to].push_back(static_cast<int>(b));
      predecessors[b].push_back(static_cast<int>(to));
    };
    for (int next : graph.blocks[b].successors) add(at(next));
    if (graph.blocks[b].successors.empty() || code.operations[at(graph.blocks[b].last - 1)].ends())
      add(count);
  }
  const DominatorTree tree = DominatorTree::of(successors, predecessors, static_cast<int>(count));
  joins.assign(count, kNone);
  for (size_t b = 0; b < count; ++b)
    if (tree.reaches(static_cast<int>(b)) && tree.parent[b] != static_cast<int>(count))
      joins[b] = tree.parent[b];
}

// Returns whether a relevant instruction is between the branch at the end of a block and the point where its
// paths meet again.
bool ProtocolCode::leads_to_counting(int block) const {
  std::vector<int> waiting = graph.blocks[at(block)].successors;
  std::set<int> met;
  while (!waiting.empty()) {
    const int b = waiting.back();
    waiting.pop_back();
    if (b == joins[at(block)] || !met.insert(b).second) continue;
    for (int o = graph.blocks[at(b)].first; o < graph.blocks[at(b)].last; ++o)
      if (counts[at(o)]) return true;
    waiting.insert(waiting.end(), graph.blocks[at(b)].successors.begin(),
                   graph.blocks[at(b)].successors.end());
  }
  return joins[at(block)] == kNone;
}

void ProtocolCode::find_counting() {
  const size_t count = code.operations.size();
  counts.assign(count, false);
  const Definitions definitions(code, graph);
  std::vector<bool> is_read(code.registers.size(), false);
  std::set<int> met;  // meets in `definitions` that have been visited
  std::vector<int> waiting;
  // Marks the instructions that may have written the value of a register that instruction i reads.
  const auto need = [&](size_t i, int reg) {
    is_read[at(reg)] = true;
    std::vector<Definition> open = {definitions.before(static_cast<int>(i), reg)};
    while (!open.empty()) {
      const Definition d = open.back();
      open.pop_back();
      if (d.kind == Definition::Kind::result) waiting.push_back(d.number);
      if (d.kind != Definition::Kind::meet || !met.insert(d.number).second) continue;
      for (int from : graph.blocks[at(definitions.meets()[at(d.number)].block)].predecessors)
        if (graph.reaches(from)) open.push_back(definitions.behind(from, reg));
    }
  };
  const auto need_operands = [&](size_t i) {
    const Operation& o = code.operations[i];
    if (o.guard != kNone) {
      need(i, o.guard);
      for (int reg : o.writes) need(i, reg);  // the old value remains if the guard is false
    }
    std::vector<int> reads;
    const auto add = [&](size_t n) {
      if (n < o.operands.size()) collect_registers(o.operands[n], reads);
    };
    // Stored data, coordinates and accumulators are not relevant.
    const auto add_addresses = [&] {
      for (const Value& v : o.operands)
        if (v.kind == Value::Kind::address && !v.parts.empty()) collect_registers(v.parts[0], reads);
    };
    switch (deeds[i]) {
      case Deed::load:
      case Deed::store:
      case Deed::store_async:
        add_addresses();
        break;
      case Deed::copy_in:
      case Deed::copy_out:
      case Deed::thread_copy:
        add_addresses();
        for (const Value& v : o.operands)
          if (v.kind != Value::Kind::address && v.kind != Value::Kind::vector) collect_registers(v, reads);
        break;
      case Deed::wgmma:
        for (size_t n = 1; n < std::min<size_t>(o.operands.size(), 3); ++n)
          if (o.operands[n].kind != Value::Kind::vector) add(n);
        break;
      default:
        reads = o.reads;
        break;
    }
    for (int reg : reads) need(i, reg);
  };
  const auto take = [&](size_t i) {
    if (counts[i]) return;
    counts[i] = true;
    need_operands(i);
  };
  for (size_t i = 0; i < count; ++i)
    if (counts_always(deeds[i]) && graph.reaches(graph.block_of[i])) take(i);
  for (bool changed = true; changed;) {
    while (!waiting.empty()) {
      const int next = waiting.back();
      waiting.pop_back();
      take(at(next));
    }
    changed = false;
    for (int block : graph.order) {
      const Block& b = graph.blocks[at(block)];
      if (b.first == b.last) continue;  // the kernel has no instructions
      const size_t last = at(b.last - 1);
      const bool decides =
          code.operations[last].guard != kNone && (deeds[last] == Deed::branch || deeds[last] == Deed::end);
      if (!decides || counts[last] || !leads_to_counting(block)) continue;
      take(last);
      changed = true;
    }
  }
  registers.assign(code.registers.size(), kNone);
  for (size_t r = 0; r < registers.size(); ++r)
    if (is_read[r]) registers[r] = counted_registers++;
}

}  // namespace ptxbuilder::analysis
