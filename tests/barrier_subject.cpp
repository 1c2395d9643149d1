#include "barrier_subject.h"

#include <fmt/format.h>

#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::test {
namespace {

constexpr uint32_t kThreads = 128;

Subject subject(const std::string& name, Kernel& k, Subject::Check check) {
  std::string text = generate_ptx(k.builder());
  return Subject(name, text, k.signature(), std::move(check));
}

// Launches a kernel that writes a word for each of `count` threads of the grid.
std::string compare(runtime::Device& device, runtime::LoadedKernel& kernel, uint32_t x, uint32_t y,
                    const std::vector<uint32_t>& expected) {
  runtime::Buffer out(device, 4 * expected.size());
  out.fill(0xff);
  kernel.launch({.grid = {x, y}}, {runtime::pointer(out, DType::u32)});
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
    return compare(device, kernel, 1, 1, expected);
  });
}

Subject meeting(uint32_t x, uint32_t y, const std::string& axes, int rounds) {
  Kernel k("meeting");
  k.cluster(x, y);
  auto [out] = k.params<gptr<u32>>("out");
  auto word = k.shared<u32>({1, kThreads});
  std::vector<ClusterAxis> along;
  const bool along_x = axes.find('x') != std::string::npos, along_y = axes.find('y') != std::string::npos;
  if (along_x) along.push_back(ClusterAxis::x);
  if (along_y) along.push_back(ClusterAxis::y);
  ClusterBarriers meet(k, 2, along);  // 0: all have written, 1: all have read
  sync_cluster();
  Phases phases(meet);
  Var<u32> sum(0u);
  u32 lane = tid_x(), column = cluster_ctaid_x(), row = cluster_ctaid_y();
  smem mine = word[0].address() + lane * 4;
  for_(0, u32(rounds), [&](u32 round) {
    sptr<u32>(word[0].address())[lane] = (column + row * x + 1) * (round + 1);
    meet.arrive(0);
    phases.wait(0);
    auto add = [&](u32 rank) {
      Var<u32> word_of_peer(0u);
      ptx("ld.shared::cluster.u32 {v:=u32}, [{at:cluster}];",
          {{"v", word_of_peer}, {"at", mapa(mine, rank)}});
      sum += word_of_peer;
    };
    if (along_x)
      for (uint32_t i = 0; i < x; ++i) add(row * x + i);
    if (along_y)
      for (uint32_t j = 0; j < y; ++j) add(column + j * x);
    meet.arrive(1);
    phases.wait(1);
  });
  out[(ctaid_y() * x + ctaid_x()) * kThreads + lane] = sum;
  return subject(fmt::format("meeting of {}x{} along {}", x, y, axes), k, [=](auto& device, auto& kernel) {
    std::vector<uint32_t> expected;
    const auto n = static_cast<uint32_t>(rounds);
    for (uint32_t j = 0; j < y; ++j)
      for (uint32_t i = 0; i < x; ++i) {
        uint32_t line = 0;
        for (uint32_t other = 0; along_x && other < x; ++other) line += other + j * x + 1;
        for (uint32_t other = 0; along_y && other < y; ++other) line += i + other * x + 1;
        expected.insert(expected.end(), kThreads, line * n * (n + 1) / 2);
      }
    return compare(device, kernel, x, y, expected);
  });
}

}  // namespace ptxbuilder::test
