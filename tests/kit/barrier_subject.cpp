#include "barrier_subject.h"

#include <fmt/format.h>

#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::test {
namespace {

constexpr uint32_t kThreads = 128;

Subject subject(const std::string& name, Kernel& k, Subject::Check check) {
  std::string text = generate_ptx(k.builder());
  return Subject(name, text, k.signature(), std::move(check));
}

// Launches a kernel with `arguments`, followed by the address for its words.
std::string compare(runtime::Device& device, runtime::LoadedKernel& kernel, runtime::Dim3 grid,
                    const std::vector<uint32_t>& expected, std::vector<runtime::Argument> arguments = {}) {
  runtime::Buffer out(device, 4 * expected.size());
  out.fill(0xff);
  arguments.push_back(runtime::pointer(out, DType::u32));
  kernel.launch({.grid = grid}, arguments);
  std::vector<uint32_t> got = out.copy_out<uint32_t>();
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != expected[i]) return fmt::format("wrong: word {} is {}, not {}", i, got[i], expected[i]);
  return "right";
}

}  // namespace

Subject ring(int slots, int rounds) {
  Kernel k("ring");
  auto [out] = k.params<gptr<u32>>("out");
  auto words = k.shared<u32>({1, kThreads}, Swizzle::none, slots);
  Barriers full(k, std::vector<int>(static_cast<size_t>(slots), kThreads), {"full"});
  Barriers empty(k, std::vector<int>(static_cast<size_t>(slots), kThreads), {"empty"});
  u32 lane = tid_x() % kThreads;
  k.warpgroups(1, 0, [&](u32) {
    Phases emptied(empty, FirstWait::passes);
    for_(0, u32(rounds), [&](u32 round) {
      u32 slot = round % slots;
      emptied.wait(slot);
      sptr<u32>(words[slot].address())[lane] = round * 1000 + lane;
      mbarrier_arrive(full[slot]);
    });
  });
  k.warpgroups(1, 0, [&](u32) {
    Phases filled(full);
    Var<u32> sum(0u);
    for_(0, u32(rounds), [&](u32 round) {
      u32 slot = round % slots;
      filled.wait(slot);
      sum += sptr<u32>(words[slot].address())[(lane + 1) % kThreads];
      mbarrier_arrive(empty[slot]);
    });
    out[lane] = sum;
  });
  return subject(fmt::format("ring of {}", slots), k, [rounds](auto& device, auto& kernel) {
    std::vector<uint32_t> expected(kThreads);
    const auto n = static_cast<uint32_t>(rounds);
    for (uint32_t i = 0; i < kThreads; ++i) expected[i] = n * (n - 1) / 2 * 1000 + n * ((i + 1) % kThreads);
    return compare(device, kernel, {1}, expected);
  });
}

Subject meeting(std::array<uint32_t, 3> cluster, const std::string& axes, int rounds) {
  const auto [x, y, z] = cluster;
  Kernel k("meeting");
  k.cluster(x, y, z);
  auto [out] = k.params<gptr<u32>>("out");
  auto word = k.shared<u32>({1, kThreads});
  ClusterAxes along;
  std::array<bool, 3> is_along = {};
  for (size_t axis = 0; axis < 3; ++axis) {
    is_along[axis] = axes.find("xyz"[axis]) != std::string::npos;
    if (is_along[axis]) along = along | static_cast<ClusterAxis>(axis);
  }
  const std::array<uint32_t, 3> step = {1, x, x * y};  // steps of the rank along each axis
  ClusterBarriers meet(k, 2, along);                   // 0: all have written, 1: all have read
  sync_cluster();
  Phases phases(meet);
  Var<u32> sum(0u);
  u32 lane = tid_x(), rank = cluster_ctarank();
  const std::array<u32, 3> at = {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()};
  smem mine = word[0].address() + lane * 4;
  for_(0, u32(rounds), [&](u32 round) {
    sptr<u32>(word[0].address())[lane] = (rank + 1) * (round + 1);
    meet.arrive(0);
    phases.wait(0);
    for (size_t axis = 0; axis < 3; ++axis)
      for (uint32_t i = 0; is_along[axis] && i < cluster[axis]; ++i) {
        Var<u32> word_of_peer(0u);
        u32 peer = rank - at[axis] * step[axis] + i * step[axis];
        ptx("ld.shared::cluster.u32 {v:=u32}, [{at:cluster}];",
            {{"v", word_of_peer}, {"at", mapa(mine, peer)}});
        sum += word_of_peer;
      }
    meet.arrive(1);
    phases.wait(1);
  });
  out[rank * kThreads + lane] = sum;
  return subject(fmt::format("meeting of {}x{}x{} along {}", x, y, z, axes), k,
                 [=](auto& device, auto& kernel) {
                   std::vector<uint32_t> expected;
                   const auto n = static_cast<uint32_t>(rounds);
                   for (uint32_t r = 0; r < x * y * z; ++r) {
                     uint32_t line = 0;
                     for (size_t axis = 0; axis < 3; ++axis)
                       for (uint32_t i = 0; is_along[axis] && i < cluster[axis]; ++i)
                         line += r - r / step[axis] % cluster[axis] * step[axis] + i * step[axis] + 1;
                     expected.insert(expected.end(), kThreads, line * n * (n + 1) / 2);
                   }
                   return compare(device, kernel, {x, y, z}, expected);
                 });
}

Subject relay(std::array<uint32_t, 3> cluster, const std::string& axes, int rounds, bool total_is_known) {
  constexpr uint32_t kCols = 4;
  const auto [x, y, z] = cluster;
  std::vector<size_t> along;
  for (char axis : axes) along.push_back(static_cast<size_t>(axis - 'x'));
  const uint32_t rows = 8 * cluster[along[0]], words = rows * kCols, parts = x * y * z / cluster[along[0]];
  // Returns the number of a CTA's line along an axis. I is u32, or uint32_t on the host.
  auto line = [cluster]<class I>(const std::array<I, 3>& at, size_t axis) {
    I number = 0;
    for (size_t i = 0; i < 3; ++i)
      if (i != axis) number = number * cluster[i] + at[i];
    return number;
  };
  Kernel k("relay");
  k.cluster(x, y, z);
  auto [A, out] = k.params<TensorMap, gptr<u32>>("A", "out");
  std::vector<SharedTile> tiles;
  ClusterAxes shared;
  for (size_t axis : along) {
    tiles.push_back(k.shared<u32>({static_cast<int>(rows), kCols}, Swizzle::none, 2));
    shared = shared | static_cast<ClusterAxis>(axis);
  }
  Pipeline pipe(k, 2, tiles, 1, shared);
  const std::array<u32, 3> at = {cluster_ctaid_x(), cluster_ctaid_y(), cluster_ctaid_z()};
  k.warpgroups(1, 0, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();
      for_(0, u32(rounds), [&](u32 round) {
        auto s = ring.acquire();
        for (size_t i = 0; i < tiles.size(); ++i)
          tma_load(tiles[i][s].multicast(static_cast<ClusterAxis>(along[i])), A, 0,
                   (round * parts + line(at, along[i])) * rows);
      });
    });
  });
  k.warpgroups(1, 0, [&](u32) {
    std::optional<u32> total;
    if (total_is_known) total = u32(rounds);
    auto ring = pipe.consumer(Peeks::no, total);
    u32 thread = tid_x() & 127, word = thread % words;
    Var<u32> sum(0u);
    for_(0, u32(rounds), [&](u32) {
      auto s = ring.wait();
      for (size_t i = 0; i < tiles.size(); ++i)
        sum += sptr<u32>(tiles[i][s].address())[word] * static_cast<uint32_t>(i + 1);
      bar_warp_sync(0xffffffff);  // every lane has read, so the warp releases
      ring.release(s);
    });
    if_(thread < words, [&] { out[cluster_ctarank() * words + word] = sum; });
  });
  return subject(
      fmt::format("relay of {}x{}x{} along {}", x, y, z, axes), k,
      [=](runtime::Device& device, runtime::LoadedKernel& kernel) {
        const uint32_t per_round = parts * words;
        std::vector<uint32_t> matrix(per_round * static_cast<uint32_t>(rounds)), expected;
        for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<uint32_t>(i * 2654435761u);
        for (uint32_t rank = 0; rank < x * y * z; ++rank)
          for (uint32_t word = 0; word < words; ++word) {
            uint32_t sum = 0;
            for (uint32_t round = 0; round < static_cast<uint32_t>(rounds); ++round)
              for (uint32_t i = 0; i < along.size(); ++i) {
                const uint32_t mine =
                    line(std::array<uint32_t, 3>{rank % x, rank / x % y, rank / x / y}, along[i]);
                sum += matrix[round * per_round + mine * words + word] * (i + 1);
              }
            expected.push_back(sum);
          }
        runtime::Buffer a = runtime::Buffer::of(device, matrix);
        const runtime::Argument map = runtime::tensor(a, DType::u32, {kCols, matrix.size() / kCols});
        return compare(device, kernel, {x, y, z}, expected, {map});
      });
}

}  // namespace ptxbuilder::test
