#include "kernels/gemm/kernel.h"

#include <fmt/format.h>

#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/product/cluster_sum.h"
#include "ptxbuilder/product/epilogue.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/product/stream_sum.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/raster.h"

namespace ptxbuilder::kernels {
namespace {

// The values of the kernel's parameters; those that an operation lacks are not there.
struct Parameters {
  std::vector<Value> values;
  std::map<std::string, size_t> index;

  template <class T>
  T get(const std::string& name) const {
    return T(values[index.at(name)].handle());
  }
};

Parameters declare(Kernel& k, const GemmOperation& o, Where where) {
  Parameters p;
  std::vector<Parameter> all;
  auto add = [&](const char* name, Parameter::Kind kind, DType type) {
    p.index[name] = all.size();
    Parameter one;
    one.name = name;
    one.kind = kind;
    one.dtype = type;
    all.push_back(std::move(one));
  };
  for (const char* name : {"A", "B", "D"}) add(name, Parameter::Kind::tensor_map, DType::u32);
  for (const char* name : {"M", "N", "K"}) add(name, Parameter::Kind::scalar, DType::u32);
  if (o.alpha) add("alpha", Parameter::Kind::scalar, DType::f32);
  if (o.beta) {
    add("beta", Parameter::Kind::scalar, DType::f32);
    add("C", Parameter::Kind::pointer, o.d);
    add("ldc", Parameter::Kind::scalar, DType::u32);
  }
  if (o.bias) add("bias", Parameter::Kind::pointer, o.d);
  if (o.batched) add("batches", Parameter::Kind::scalar, DType::u32);
  p.values = k.builder().declare_parameters(std::move(all), where);
  return p;
}

// An operand of wgmma in the ring: `extent` rows (or columns) of the output's tile, and a stage's depth.
struct Operand {
  TensorMap map;
  bool k_major;
  int extent, depth;
  SharedTile tile;

  // `shared_along`: the CTAs of the cluster that need the same.
  void load(const Stage& s, std::optional<ClusterAxis> shared_along, u32 k, u32 start,
            const std::optional<u32>& batch) const {
    std::vector<u32> at = k_major ? std::vector<u32>{k, start} : std::vector<u32>{start, k};
    if (batch) at.push_back(*batch);
    tma_load(shared_along ? tile[s].multicast(*shared_along) : LoadView(tile[s]), map, at);
  }
  // `count` of the extent, from `first`.
  TileView view(const Stage& s, u32 first, int count) const {
    if (k_major) return count == extent ? tile[s] : tile[s].rows(first, count);
    return (count == extent ? tile[s] : tile[s].cols(first, count)).transposed();
  }
};

Operand operand(Kernel& k, const char* name, TensorMap map, DType type, bool k_major, int extent,
                const GemmTile& t) {
  TileShape shape = k_major ? TileShape{extent, t.bk} : TileShape{t.bk, extent};
  return {map, k_major, extent, t.bk,
          k.shared(type, shape, widest_swizzle(shape.cols * size_of(type)), t.stages, name)};
}

RegisterTile<f32> activated(Activation activation, const RegisterTile<f32>& x) {
  switch (activation) {
    case Activation::relu:
      return relu(x);
    case Activation::silu:
      return silu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::none:
      break;
  }
  return x;
}

// Adds beta C and the bias, which have the output's type.
template <class T>
RegisterTile<f32> with_addends(const GemmOperation& o, const Parameters& p, RegisterTile<f32> x,
                               const PanelPlace& at) {
  u32 m = p.get<u32>("M"), n = p.get<u32>("N");
  if (o.beta) {
    u32 ldc = p.get<u32>("ldc");
    GlobalTensor c(p.get<gptr<T>>("C"), {1, m, n}, {u64(m) * u64(ldc), ldc, 1});
    PanelPlace place = at;
    if (!place.batch) place.batch = 0;
    x = add_residual(x, c, place, p.get<f32>("beta"));
  }
  return o.bias ? add_bias(x, GlobalTensor(p.get<gptr<T>>("bias"), {n}), at) : x;
}

// What becomes of sums; none where they are stored as they are.
Epilogue epilogue_of(const GemmOperation& o, const Parameters& p) {
  if (!o.has_epilogue()) return nullptr;
  return [&o, &p](const RegisterTile<f32>& sums, const PanelPlace& at) {
    RegisterTile<f32> x = o.alpha ? sums * p.get<f32>("alpha") : sums;
    if (o.d == DType::f16)
      x = with_addends<f16>(o, p, x, at);
    else if (o.d == DType::bf16)
      x = with_addends<bf16>(o, p, x, at);
    else
      x = with_addends<f32>(o, p, x, at);
    return activated(o.activation, x);
  };
}

// Adds 8 columns at a time: all at once would take as many registers again.
void add(Accumulator& to, const Accumulator& from) {
  for (int row = 0; row < from.m(); row += 64)
    for (int col = 0; col < from.n(); col += 8) {
      const TilePart part = {row, col, 64, 8};
      store(to, load<f32>(to, part) + load<f32>(from, part), part);
    }
}

// Whether a tile's sums wait in registers, rounded, to be stored under the next tile's products: where they
// fit beside the next sums and what the epilogue takes, and the warpgroups do not take turns anyway. A
// batch's epilogue reads C where it is now.
bool defers_store(const GemmOperation& o, const GemmTile& t) {
  const int sums = t.bm / t.consumers * t.bn / 128;
  return size_of(o.d) == 2 && !(size_of(o.a) == 1 && !o.fast_accumulation) && !t.pingpong && t.split_k == 1 &&
         t.consumers <= 2 && t.ctas_per_sm == 1 && sums + sums / 2 <= (o.has_epilogue() ? 144 : 192) &&
         !(o.batched && o.has_epilogue());
}

constexpr int kStreamCtas = hopper::multiprocessors;  // at most

DType accumulator_type(DType input) {
  return input == DType::s8 || input == DType::u8 ? DType::s32 : DType::f32;
}

}  // namespace

Kernel gemm(const GemmOperation& o, const GemmTile& given, Where where) {
  const GemmTile t = checked(o, given, where);
  Kernel k("gemm_" + text(t));
  k.cluster(static_cast<uint32_t>(t.split_k > 1 ? t.split_k : t.cluster_m),
            static_cast<uint32_t>(t.cluster_n));
  const Parameters p = declare(k, o, where);
  auto [A, B, D] = std::tuple(p.get<TensorMap>("A"), p.get<TensorMap>("B"), p.get<TensorMap>("D"));
  u32 M = p.get<u32>("M"), N = p.get<u32>("N"), K = p.get<u32>("K");

  // Their first use would wait for them.
  if_(tid_x() == 0, [&, A = A, B = B, D = D] {
    for (TensorMap map : {A, B, D}) prefetch_tensormap(map);
  });

  // wgmma's rows, X, and columns, Y, of the output.
  const Operand X = t.swapped ? operand(k, "B", B, o.b, o.b_k_major, t.bm, t)
                              : operand(k, "A", A, o.a, o.a_k_major, t.bm, t);
  const Operand Y = t.swapped ? operand(k, "A", A, o.a, o.a_k_major, t.bn, t)
                              : operand(k, "B", B, o.b, o.b_k_major, t.bn, t);
  const int per_warpgroup = t.pingpong ? t.bm : t.bm / t.consumers;
  Pipeline pipe(k, t.stages, {X.tile, Y.tile}, t.pingpong ? 1 : t.consumers,
                t.split_k > 1 ? Producers::own : Producers::cluster);
  std::optional<Turns> turns;
  if (t.pingpong) turns.emplace(k, t.consumers);
  std::optional<ClusterSum> sum;
  if (t.split_k > 1) sum.emplace(k, per_warpgroup, t.bn, t.consumers);
  std::optional<StreamSum> stream;
  if (t.stream_k) stream.emplace(k, per_warpgroup, t.bn, t.consumers, kStreamCtas);

  // Tiles of all batches lie one below the other, whole clusters of each.
  u32 x_tiles = ceil_div(t.swapped ? N : M, t.bm), y_tiles = ceil_div(t.swapped ? M : N, t.bn);
  u32 rows = t.cluster_m > 1 ? ceil_div(x_tiles, t.cluster_m) * t.cluster_m : x_tiles;
  u32 depth = ceil_div(K, t.bk);
  struct Work {
    u32 x, y;  // where the tile begins
    std::optional<u32> batch;
    u32 first, last;  // stages of it
    u32 tile;         // in the order of all tiles
  };
  // Where a tile begins along a dimension. Copies move units of 16 bytes along the innermost one.
  auto begin = [&](u32 tile, int length, u32 extent, const Operand& operand, bool innermost_of_d) {
    u32 start = tile * length;
    if (!t.inside) return start;
    const int unit =
        std::max(operand.k_major ? 1 : 16 / size_of(o.a), innermost_of_d ? 16 / size_of(o.d) : 1);
    return min(start, select(extent > length, ceil_div(extent - length, unit) * unit, u32(0)));
  };
  const u32 all_rows = o.batched ? rows * p.get<u32>("batches") : rows;
  // How stream-K divides: the first `divided` tiles are `shared` stages, of which each CTA has as many.
  u32 divided = 0;
  u64 shared = 0;
  auto share_end = [&](u32 ctas) { return u32(shared * u64(ctas) / u64(nctaid_x())); };
  if (t.stream_k) {
    u32 tiles = all_rows * y_tiles, ctas = nctaid_x(), rest = tiles % ctas;
    divided = select(tiles < ctas, tiles, select(rest == 0, u32(0), ctas + rest));
    shared = u64(divided) * u64(depth);
  }
  auto each_work = [&](Turn turn, const std::function<void(Work)>& body) {
    auto at = [&](TileIndex tile, u32 first, u32 last, u32 number) {
      std::optional<u32> batch;
      if (o.batched) batch = tile.row / rows;
      body({begin(batch ? tile.row % rows : tile.row, t.bm, t.swapped ? N : M, X, t.swapped),
            begin(tile.col, t.bn, t.swapped ? M : N, Y, !t.swapped), batch, first, last, number});
    };
    if (t.split_k > 1) {  // one tile for each cluster
      u32 rank = cluster_ctaid_x(), number = ctaid_x() / t.split_k;
      at(grouped_raster(number, all_rows, y_tiles, t.raster), depth * rank / t.split_k,
         depth * (rank + 1) / t.split_k, number);
    } else if (t.stream_k) {  // its share of stages, and then whole tiles
      Var<u32> stage(share_end(ctaid_x())), whole(divided + ctaid_x());
      u32 end = share_end(ctaid_x() + 1);
      while_([&] { return (stage.value() < end) | (whole.value() < all_rows * y_tiles); },
             [&] {
               pred part = stage.value() < end;
               u32 number = select(part, stage.value() / depth, whole.value());
               u32 first = select(part, stage.value() - number * depth, u32(0));
               u32 last = select(part, min(depth, first + end - stage.value()), depth);
               stage = select(part, stage.value() + (last - first), stage.value());
               whole = select(part, whole.value(), whole.value() + nctaid_x());
               at(grouped_raster(number, all_rows, y_tiles, t.raster), first, last, number);
             });
    } else {
      for_each_tile(all_rows, y_tiles, t.raster, turn, [&](TileIndex tile) { at(tile, 0, depth, 0); });
    }
  };

  // CTAs that share an SM have what the launch gives them.
  const RoleRegisters registers = t.ctas_per_sm > 1 ? RoleRegisters{0, 0} : role_registers(t.consumers);

  // A launch may begin before the one ahead of it has ended. What that wrote is complete, and what it reads
  // may be written, behind griddepcontrol_wait(), to which each role comes with its barriers in place, and
  // the producer with its first tile at hand.
  k.warpgroups(1, registers.producer, [&](u32) {
    std::optional<ClusterAxis> x = ClusterAxis::x, y = ClusterAxis::y;
    if (t.split_k > 1) x = y = std::nullopt;  // each has a part of k of its own
    elect([&] {
      auto ring = pipe.producer();
      each_work({0, 1}, [&](Work work) {
        griddepcontrol_wait();
        for_(work.first, work.last, [&](u32 kt) {
          auto s = ring.acquire();
          X.load(s, y, kt * t.bk, work.x, work.batch);
          Y.load(s, x, kt * t.bk, work.y, work.batch);
        });
      });
      // The next launch may begin where this one has made room. Any sooner, and its CTAs would take the
      // memory bandwidth of those that are still loading; clusters that add up lose by it in any case.
      if (t.split_k == 1) griddepcontrol_launch_dependents();
    });
  });

  StoreOptions store_options{.transposed = t.swapped, .buffers = staging_buffers(o, t)};
  const Epilogue epilogue = epilogue_of(o, p);

  k.warpgroups(t.consumers, registers.consumer, [&](u32 wg) {
    griddepcontrol_wait();
    Accumulator acc(per_warpgroup, t.bn, accumulator_type(o.a));
    const bool promotes = size_of(o.a) == 1 && acc.dtype() == DType::f32 && !o.fast_accumulation;
    // A warpgroup that has the tensor cores to itself keeps them busy while it waits for the next stage;
    // where two share them, the other one does.
    const bool late = (t.consumers == 1 || t.pingpong) && !promotes && t.stages > 1;
    std::optional<u32> filled;  // stages, known so that CTAs of a cluster need not wait for each other's end
    if (t.cluster_m * t.cluster_n > 1) filled = tiles_of_cta(all_rows, y_tiles) * depth;
    auto ring = pipe.consumer(late ? Peeks::yes : Peeks::no, filled);
    const RegisterTile<f32> zeros(0, acc.layout());
    std::optional<Accumulator> total;  // of what the tensor core sums up 128 of k at a time
    if (promotes) total.emplace(per_warpgroup, t.bn);
    std::optional<DeferredStore> deferred;
    if (defers_store(o, t)) {
      if (o.batched) store_options.batch = u32(0);
      deferred.emplace(o.d, D, TileExtent{per_warpgroup, t.bn}, store_options);
    }
    std::optional<WarpgroupTurn> turn;
    if (t.pingpong) {
      turn.emplace(turns->of(wg));
      ring.skip(wg * depth);  // of the tiles that are others'
    }
    each_work(t.pingpong ? Turn{wg, t.consumers} : Turn{0, 1}, [&](Work work) {
      u32 first = work.first, last = work.last;
      u32 row = t.pingpong ? u32(0) : wg * per_warpgroup;
      if (turn) turn->wait();
      acc.zero();
      if (promotes) store(*total, zeros);
      auto multiply = [&](const Stage& s) {
        if (promotes) acc.zero();
        wgmma_group([&] { mma(acc, X.view(s, row, per_warpgroup), Y.view(s, 0, t.bn)); });
      };
      auto step = [&](const std::function<void()>& meanwhile) {
        auto s = ring.wait();
        multiply(s);
        meanwhile();
        wgmma_wait(0);
        ring.release(s);
        if (promotes) add(*total, acc);
      };
      // The tile before is stored under the first steps, as many as there are. None of them is late: behind
      // the store's branches, ptxas would not know the stage as uniform any more.
      const int shadows = deferred ? deferred->steps() : 0;
      for (int i = 0; i < shadows; ++i)
        if_(
            first + i < last, [&] { step([&] { deferred->step(i); }); }, [&] { deferred->step(i); });
      u32 rest = first + shadows;
      for_(rest, last, [&](u32 kt) {
        if (!late) return step([] {});
        auto s = ring.wait();
        multiply(s);
        ring.peek();
        wgmma_wait(1);
        ring.release_previous(s, kt == rest);
      });
      if (turn) turn->pass();  // the other's first products follow the last ones here without a gap
      if (late) {
        wgmma_wait(0);
        ring.release_last(rest >= last);
      }
      if (t.split_k > 1) if_(first >= last, [&] { store(acc, zeros); });  // a share of k may be empty
      if (turn) ring.skip(depth * (t.consumers - 1));
      StoreOptions options = store_options;
      options.batch = work.batch;
      auto out = [&](const StoreSource& tile) {
        if (deferred)
          deferred->take(tile, work.x + row, work.y, epilogue, work.batch);
        else
          store(o.d, D, tile, work.x + row, work.y + (sum ? sum->first_column() : u32(0)), epilogue, options);
      };
      Accumulator& result = promotes ? *total : acc;
      if (sum) return out(sum->add(result, X.tile[0].address()));
      if (!stream) return out(result);
      if_(
          first == 0,
          [&] {  // the CTAs behind this one have the rest of the tile
            Var<u32> to(last), cta(ctaid_x() + 1);
            while_([&] { return to.value() < depth; },
                   [&] {
                     u32 until = min(depth, share_end(cta.value() + 1) - work.tile * depth);
                     if_(until > to.value(), [&] { stream->take(result, cta); });
                     to = until;
                     cta = cta.value() + 1;
                   });
            out(result);
          },
          [&] {
            stream->give(result);
            if (deferred) deferred->skip();
          });
    });
    if (deferred) deferred->finish();
  });
  return k;
}

void waive_lack_of_registers(Kernel& kernel) {
  for (const char* advisory : {"C7511", "C7512", "spills", "stack"}) kernel.waive(advisory);
}

int active_clusters(int ctas, int multiprocessors) {
  constexpr int kMeasured[] = {hopper::multiprocessors, 66, 39, 30, 22, 17, 15, 15};
  return std::max(1, kMeasured[ctas - 1] * multiprocessors / hopper::multiprocessors);
}

GemmGrid gemm_grid(const GemmTile& t, int64_t m, int64_t n, int64_t batches, int multiprocessors) {
  auto tiles = [](int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; };
  const int64_t x = tiles(tiles(t.swapped ? n : m, t.bm), t.cluster_m) * batches;
  const int64_t y = tiles(tiles(t.swapped ? m : n, t.bn), t.cluster_n);
  if (t.split_k > 1) return {static_cast<uint32_t>(x * y * t.split_k), 1};
  if (t.stream_k)
    return {static_cast<uint32_t>(
                std::min<int64_t>(x * y * kStreamShares, std::min(multiprocessors, kStreamCtas))),
            1};
  const int64_t clusters =
      std::min<int64_t>(x * y, active_clusters(t.cluster_m * t.cluster_n, multiprocessors) * t.ctas_per_sm);
  return {static_cast<uint32_t>(clusters * t.cluster_m), static_cast<uint32_t>(t.cluster_n)};
}

}  // namespace ptxbuilder::kernels
