// Barriers of a CTA and of a cluster, and fences (PTX ISA, bar, barrier, barrier.cluster, fence, membar).
#include <fmt/format.h>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/tensor_map.h"

namespace ptxbuilder::runtime::emulator {
namespace {

enum : uint8_t { sync, arrive, popc, and_, or_ };

bool reduces(const Instruction& i) { return i.mode[0] >= popc; }

// What bar.red gives each of its threads.
void give_result(Warp& w, const Instruction& i, Lanes lanes, const Barrier& b) {
  const bool yes = i.mode[0] == and_ ? b.result == b.result_threads : b.result != 0;
  if (i.mode[0] == popc) {
    for_lanes(lanes, [&](int k) { w.at<uint32_t>(i.r[0])[k] = b.result; });
  } else {
    uint32_t& p = *w.at<uint32_t>(i.r[0]);
    p = (p & ~lanes) | (yes ? lanes : 0);
  }
}

void complete(Warp& w, Barrier& b, uint32_t id) {
  b.completed = std::move(b.gathered);
  b.gathered.clear();
  b.result = b.sum;
  b.result_threads = b.arrived;
  b.arrived = b.expected = b.sum = 0;
  b.all = false;
  ++b.generation;
  w.cluster().changed();
  for (auto& other : w.cta.warps)
    for (Fragment& f : other->fragments)
      if (f.wait == Wait::barrier && f.object == id && f.generation + 1 == b.generation)
        if (const Instruction& i = w.grid().kernel.code[f.pc - 1]; reduces(i))
          give_result(*other, i, f.lanes, b);
}

// r[0] result, r[1] id, r[2] threads or none, r[3] predicate. mode: 0 what, 1 aligned, 2 whether r[3] is
// negated.
void execute_bar(Warp& w, const Instruction& i, Lanes lanes) {
  if (i.mode[1]) w.require_converged(false);
  const int lane = __builtin_ctz(lanes);
  const uint32_t id = w.at<uint32_t>(i.r[1])[lane];
  if (id >= 16) w.fail(Fault::operand, fmt::format("barrier {} does not exist: ids are 0 to 15", id), lane);
  Barrier& b = w.cta.barriers[id];
  const bool all = i.r[2] == no_register;
  const uint32_t expected = all ? w.cta.live_warps * 32 : w.at<uint32_t>(i.r[2])[lane];
  if (!all && (expected == 0 || expected % 32 || expected > (w.cta.threads + 31) / 32 * 32))
    w.fail(Fault::operand,
           fmt::format("barrier {} for {} threads: a multiple of 32, at most the CTA's {}, is wanted", id,
                       expected, w.cta.threads),
           lane);
  if (b.arrived && (b.expected != expected))
    w.fail(Fault::operand,
           fmt::format("barrier {} for {} threads, but others of this phase came for {}", id, expected,
                       b.expected),
           lane);
  b.expected = expected;
  b.all = all;
  b.arrived += i.mode[1] ? 32 : static_cast<uint32_t>(__builtin_popcount(lanes));
  if (reduces(i)) {
    Lanes p = *w.at<uint32_t>(i.r[3]);
    b.sum += static_cast<uint32_t>(__builtin_popcount((i.mode[2] ? ~p : p) & lanes));
  }
  if (w.cluster().checks) b.gathered.join(w.release());
  if (b.arrived > b.expected)
    w.fail(Fault::operand,
           fmt::format("{} threads arrive at barrier {}, which expects {}", b.arrived, id, b.expected), lane);
  if (b.arrived == b.expected) {
    complete(w, b, id);
    if (reduces(i)) give_result(w, i, lanes, b);
    if (i.mode[0] != arrive) w.acquire(b.completed);
  } else if (i.mode[0] != arrive) {
    w.pause(Wait::barrier);
    w.fragment().object = id;
    w.fragment().generation = b.generation;
  }
}

void decode_bar(Decode& d) {
  const bool old = d.text.opcode.starts_with("bar.");
  d.take("cta");
  auto what = d.take_one({"sync", "arrive", "red"});
  size_t at = 0;
  d.out.mode[1] = d.take("aligned") || old;
  if (what.empty()) d.refuse("it names no operation");
  d.out.mode[0] = what == "sync" ? sync : arrive;
  if (what == "red") {
    auto op = d.take_one({"popc", "and", "or"});
    d.out.mode[0] = op == "popc" ? popc : op == "and" ? and_ : or_;
    Type type = d.take_type();
    d.require(op == "popc" ? bytes(type) == 4 : type == Type::pred);
    d.out.r[0] = d.destination(at++, type);
  }
  d.done();
  d.out.r[1] = d.source(at++, Type::u32);
  size_t left = d.count() - at - (what == "red");
  if (left == 1)
    d.out.r[2] = d.source(at++, Type::u32);
  else if (left != 0)
    d.refuse("it has too many operands");
  if (what == "arrive" && left == 0) d.refuse("arrive needs the count of threads");
  if (what == "red") {
    const Predicate p = d.predicate(d.operand(at));
    d.out.r[3] = p.p;
    d.out.mode[2] = p.negated;
  }
  d.out.execute = execute_bar;
}

// barrier.cluster counts warps. mode[0]: 1 for .relaxed, mode[1] aligned.
void execute_cluster_arrive(Warp& w, const Instruction& i, Lanes) {
  if (i.mode[1]) w.require_converged(false);
  Cluster& c = w.cluster();
  if (w.cluster_arrived)
    w.fail(Fault::operand, "this warp arrives at the cluster barrier twice without a wait between");
  w.cluster_arrived = true;
  w.cluster_generation = c.barrier.generation;
  if (c.checks) {
    Knowledge k = w.release();
    if (i.mode[0])
      c.barrier.gathered.inits.join(k.inits);  // .relaxed orders nothing but what a fence has published
    else
      c.barrier.gathered.join(k);
  }
  ++c.barrier.arrived;
  c.complete_barrier();
}

void execute_cluster_wait(Warp& w, const Instruction& i, Lanes) {
  if (i.mode[1]) w.require_converged(false);
  Cluster& c = w.cluster();
  if (!w.cluster_arrived)
    w.fail(Fault::operand, "this warp waits at the cluster barrier without having arrived");
  if (c.barrier.generation == w.cluster_generation) return w.retry(Wait::cluster);
  w.cluster_arrived = false;
  w.acquire(c.barrier.completed);
}

void decode_cluster(Decode& d) {
  auto what = d.take_one({"arrive", "wait"});
  d.out.mode[0] = d.take("relaxed");
  d.take_any({"release", "acquire"});
  d.out.mode[1] = d.take("aligned");
  d.done();
  d.out.execute = what == "arrive" ? execute_cluster_arrive : execute_cluster_wait;
}

// fence.proxy.async: the generic writes that this thread knows of become visible to the async proxy.
void execute_proxy_fence(Warp& w, const Instruction&, Lanes) {
  if (!w.cluster().checks) return;
  w.knowledge.fenced.join(w.knowledge.seen);
  w.release();
}
void execute_init_fence(Warp& w, const Instruction&, Lanes) {
  if (!w.cluster().checks) return;
  w.knowledge.inits.join(w.knowledge.seen);
  w.release();
}
void execute_fence(Warp&, const Instruction&, Lanes) {}

void decode_fence(Decode& d) {
  d.out.execute = execute_fence;
  if (d.take("mbarrier_init")) d.out.execute = execute_init_fence;
  if (d.text.opcode.find(".proxy.tensormap::generic") != std::string::npos) return decode_map_fence(d);
  if (d.take("proxy") && d.take("async")) {
    if (!d.take("global")) d.out.execute = execute_proxy_fence;
    d.take_any({"shared::cta", "shared::cluster"});
    d.done();
    return;
  }
  d.take_any({"sc", "acq_rel", "release", "acquire", "cta", "cluster", "gpu", "sys", "alias",
              "async::generic", "sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
  d.done();
}

}  // namespace

void Cluster::complete_barrier() {
  if (barrier.arrived == 0 || barrier.arrived < live_warps) return;
  barrier.completed = std::move(barrier.gathered);
  barrier.gathered.clear();
  barrier.arrived = 0;
  ++barrier.generation;
  changed();
}

void add_barrier(DecodeTable& t) {
  t["bar"] = decode_bar;
  t["barrier"] = decode_bar;
  t["barrier.cluster"] = decode_cluster;
  t["fence"] = decode_fence;
  t["membar"] = [](Decode& d) {
    d.take_any({"cta", "gl", "sys"});
    d.out.execute = execute_fence;
  };
}

}  // namespace ptxbuilder::runtime::emulator
