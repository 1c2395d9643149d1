// Executes barriers of a CTA and of a cluster, and fences (PTX ISA, bar, barrier, barrier.cluster, fence,
// membar).
#include <fmt/format.h>

#include "runtime/emulator/instructions/handlers.h"
#include "runtime/emulator/instructions/tensor_map_contents.h"

namespace ptxbuilder::runtime::emulator {
namespace {

enum class BarKind : uint8_t { sync, arrive, red_popc, red_and, red_or };

struct Bar {
  Register a;   // number of the barrier
  Register b;   // number of threads; no_register for all threads
  Register d;   // for bar.red, the result: a register for popc, otherwise a predicate
  Predicate c;  // for bar.red
  BarKind kind;
  bool aligned;

  bool reduces() const { return kind >= BarKind::red_popc; }
};

// Writes the result of bar.red for these lanes.
void give_result(Warp& w, const Bar& x, Lanes lanes, const Barrier& b) {
  if (x.kind == BarKind::red_popc) return for_lanes(lanes, [&](int k) { w.at<uint32_t>(x.d)[k] = b.result; });
  const bool yes = x.kind == BarKind::red_and ? b.result == b.result_threads : b.result != 0;
  w.set_predicate(x.d, lanes, yes ? all_lanes : 0);
}

void execute_bar(Warp& w, const Bar& x, Lanes lanes) {
  if (x.aligned) {
    if (!w.converged(lanes, false)) return;
    lanes = w.lanes;
  }
  const int lane = __builtin_ctz(lanes);
  const uint32_t id = w.at<uint32_t>(x.a)[lane];
  if (id >= 16) w.fail(Fault::operand, fmt::format("barrier {} does not exist: ids are 0 to 15", id), lane);
  Barrier& b = w.cta.barriers[id];
  const bool all = x.b == no_register;
  const uint32_t expected = all ? w.cta.live_warps * 32 : w.at<uint32_t>(x.b)[lane];
  if (!all && (expected == 0 || expected % 32 || expected > (w.cta.threads + 31) / 32 * 32))
    w.fail(Fault::operand,
           fmt::format(
               "barrier {} is for {} threads, but the number must be a multiple of 32, at most the CTA's {}",
               id, expected, w.cta.threads),
           lane);
  if (b.arrived && (b.expected != expected))
    w.fail(Fault::operand,
           fmt::format("barrier {} is for {} threads here, but other threads arrived in this phase with {}",
                       id, expected, b.expected),
           lane);
  b.expected = expected;
  b.all = all;
  // A barrier counts whole warps: lanes that have exited or never existed count as arriving with the first
  // lanes of the warp.
  Lanes& who = b.who[w.index];
  const Lanes arriving = lanes | (~who & ~w.alive);
  who |= arriving;
  b.arrived += x.aligned ? 32 : static_cast<uint32_t>(std::popcount(arriving));
  if (x.reduces()) b.sum += static_cast<uint32_t>(__builtin_popcount(w.truth(x.c) & lanes));
  if (w.cluster().checks) b.gathered.join(w.causality.release());
  if (b.arrived > b.expected)
    w.fail(Fault::operand,
           fmt::format("{} threads arrive at barrier {}, which expects {}", b.arrived, id, b.expected), lane);
  if (b.arrived == b.expected) {
    w.cta.complete(id);
    if (x.reduces()) give_result(w, x, lanes, b);
    if (x.kind != BarKind::arrive) w.causality.acquire(b.completed);
  } else if (x.kind != BarKind::arrive) {
    w.pause(Wait::barrier);
    w.fragment().object = id;
    w.fragment().generation = b.generation;
  }
}

void decode_bar(Decode& d) {
  Bar x{};
  x.aligned = d.has("aligned") || d.text.opcode.starts_with("bar.");
  if (d.has("arrive")) x.kind = BarKind::arrive;
  if (d.has("red")) {
    x.kind = d.has("popc") ? BarKind::red_popc : d.has("and") ? BarKind::red_and : BarKind::red_or;
    x.d = d.destination(0, d.type());
    x.c = d.predicate(d["c"]);
  }
  x.a = d.source(d["id"], Type::u32);
  if (const ptx_text::Operand* threads = d.find("threads")) x.b = d.source(*threads, Type::u32);
  d.needs_all();
  d.run<execute_bar>(x);
}

struct ClusterArrive {
  bool relaxed, aligned;
};

void execute_cluster_arrive(Warp& w, const ClusterArrive& x, Lanes lanes) {
  if (x.aligned) {
    if (!w.converged(lanes, false)) return;
    lanes = w.lanes;
  }
  Cluster& c = w.cluster();
  if (const Lanes twice = w.cluster_arrival.lanes & lanes)
    w.fail(Fault::operand, "this thread arrives at the cluster barrier twice without a wait between",
           __builtin_ctz(twice));
  w.cluster_arrival.lanes |= lanes;
  for_lanes(lanes, [&](int lane) {
    w.cluster_arrival.generation[static_cast<size_t>(lane)] = c.barrier.generation;
  });
  if (c.checks) {
    Knowledge k = w.causality.release();
    if (x.relaxed)
      c.barrier.gathered.inits.join(k.inits);  // .relaxed orders only inits that a fence has published
    else
      c.barrier.gathered.join(k);
  }
  c.complete_barrier();
}

struct ClusterWait {
  bool aligned;
};

void execute_cluster_wait(Warp& w, const ClusterWait& x, Lanes lanes) {
  if (x.aligned) {
    if (!w.converged(lanes, false)) return;
    lanes = w.lanes;
  }
  Cluster& c = w.cluster();
  if (const Lanes absent = lanes & ~w.cluster_arrival.lanes)
    w.fail(Fault::operand, "this thread waits at the cluster barrier without having arrived",
           __builtin_ctz(absent));
  bool early = false;
  for_lanes(lanes, [&](int lane) {
    early |= c.barrier.generation == w.cluster_arrival.generation[static_cast<size_t>(lane)];
  });
  if (early) return w.retry(Wait::cluster);
  w.cluster_arrival.lanes &= ~lanes;
  w.causality.acquire(c.barrier.completed);
}

void decode_cluster(Decode& d) {
  if (d.has("arrive"))
    d.run<execute_cluster_arrive>({d.has("relaxed"), d.has("aligned")});
  else
    d.run<execute_cluster_wait>({d.has("aligned")});
}

// Describes a fence.proxy.async of shared memory, global memory, or both.
struct ProxyFence {
  bool shared, global;
};

void execute_proxy_fence(Warp& w, const ProxyFence& x, Lanes lanes) {
  if (x.shared) w.causality.fence_proxy(lanes);
  if (x.global) w.causality.fence_global_proxy();
}

void execute_init_fence(Warp& w, Lanes) { w.causality.fence_inits(); }

struct MemoryFence {
  Scope scope;
  bool sequential;  // .sc; also true for membar
};

// Orders a .sc fence with those before it, in the order of execution. A fence with cluster or CTA scope is
// ordered with fences whose scopes include both threads. A fence with a wider scope settles all stores
// instead. The order does not count for the race checks.
void order_sequentially(Warp& w, Scope scope) {
  constexpr uint64_t nowhere = ~uint64_t{0};
  GlobalMemoryOrder& order = *w.grid().order;
  if (scope >= Scope::gpu) {
    w.causality.settle(w.weak()->stores());
  } else if (const PassedOnPointer passed = order.passed(nowhere)) {
    Knowledge k;
    acquire(*passed, w.party(), scope, k);
    w.causality.acquire(k);
  }
  order.release(nowhere, w.party(), std::min(scope, Scope::cluster), w.causality.release());
}

void execute_memory_fence(Warp& w, const MemoryFence& x, Lanes) {
  const Kernel& kernel = w.grid().kernel;
  if (kernel.names_semantics) w.causality.fence(x.scope);
  if (x.sequential && w.weak()) {
    order_sequentially(w, x.scope);
    if (kernel.names_semantics) w.causality.fence(x.scope);  // so that the fence passes on this order too
  }
  if (x.scope >= Scope::gpu || kernel.communicates) w.causality.publish(x.scope);
}

template <bool membar>
void decode_fence(Decode& d) {
  if (d.has("tensormap::generic")) return decode_map_fence(d);
  if (d.has("mbarrier_init")) return d.run<execute_init_fence>();
  if (d.has("async")) {
    d.turn(Turn::late);
    const bool global = d.has("global"), shared = d.has("shared::cta") || d.has("shared::cluster");
    return d.run<execute_proxy_fence>({!global, !shared});
  }
  if (d.has("proxy")) return d.run<execute_nothing>();
  const bool sequential = membar || d.has("sc");
  d.turn(sequential ? Turn::waits : Turn::late);
  d.run<execute_memory_fence>({take_scope(d), sequential});
}

}  // namespace

void Cta::complete(uint32_t id) {
  Barrier& b = barriers[id];
  b.completed = std::move(b.gathered);
  b.gathered.clear();
  b.result = b.sum;
  b.result_threads = b.arrived;
  b.arrived = b.expected = b.sum = 0;
  b.all = false;
  const auto who = std::exchange(b.who, {});
  ++b.generation;
  cluster.changed();
  for (auto& warp : warps)
    if (who[warp->index]) warp->causality.meet(who[warp->index], warp->alive);
  for (auto& warp : warps)
    for (Fragment& f : warp->fragments_)
      if (f.wait == Wait::barrier && f.object == id && f.generation + 1 == b.generation)
        if (const Bar& x = *cluster.grid.kernel.code[f.pc - 1].operands<execute_bar>(); x.reduces())
          give_result(*warp, x, f.lanes, b);
}

// Completes the cluster's barrier if all threads of the cluster that have not exited have arrived.
void Cluster::complete_barrier() {
  bool any = false;
  for (const Warp* warp : all_)
    for (Lanes rest = warp->alive; rest; rest &= rest - 1) {
      const auto lane = static_cast<size_t>(__builtin_ctz(rest));
      if (!((warp->cluster_arrival.lanes >> lane) & 1) ||
          warp->cluster_arrival.generation[lane] != barrier.generation)
        return;
      any = true;
    }
  if (!any) return;
  for (Warp* warp : all_) warp->causality.meet(all_lanes, warp->alive);
  barrier.completed = std::move(barrier.gathered);
  barrier.gathered.clear();
  ++barrier.generation;
  changed();
}

void add_barrier(DecodeTable& t) {
  t["bar"] = decode_bar;
  t["barrier"] = decode_bar;
  t["barrier.cluster"] = decode_cluster;
  t["fence"] = decode_fence<false>;
  t["membar"] = decode_fence<true>;
}

}  // namespace ptxbuilder::runtime::emulator
