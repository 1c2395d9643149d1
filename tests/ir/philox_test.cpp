// Compares Philox with the numbers that its authors published (kat_vectors of Random123), and a kernel's
// results with the host's.
#include "ptxbuilder/ir/philox.h"

#include "register_tile_kit.h"

namespace ptxbuilder::test::philox_test {

TEST_CASE("the known answers of philox2x32 and philox4x32, of ten rounds") {
  using Two = std::array<uint32_t, 2>;
  using Four = std::array<uint32_t, 4>;
  const uint32_t all = 0xffffffff;
  CHECK(philox2x32<uint32_t>({0, 0}, 0) == Two{0xff1dae59, 0x6cd10df2});
  CHECK(philox2x32<uint32_t>({all, all}, all) == Two{0x2c3f628b, 0xab4fd7ad});
  CHECK(philox2x32<uint32_t>({0x243f6a88, 0x85a308d3}, 0x13198a2e) == Two{0xdd7ce038, 0xf62a4c12});
  CHECK(philox4x32<uint32_t>({0, 0, 0, 0}, {0, 0}) == Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32<uint32_t>({all, all, all, all}, {all, all}) ==
        Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32<uint32_t>({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a kernel draws the host's numbers") {
  constexpr int kThreads = 128, kWords = 6;
  const Matrix seeds = random_matrix(DType::u32, {kThreads, 1}, 0, 0xffffffff);
  Kernel k("draws");
  auto [seed, words] = k.params<gptr<u32>, gptr<u32>>("seed", "words");
  const u32 i = tid_x(), own = seed[i];
  const std::array<u32, 4> four = philox4x32<u32>({i, i + 1, own, 7}, {own, i});
  const std::array<u32, 2> two = philox2x32<u32>({four[0], i}, own);
  const std::array<u32, kWords> all = {four[0], four[1], four[2], four[3], two[0], two[1]};
  for (int w = 0; w < kWords; ++w) words[i * kWords + w] = all[static_cast<size_t>(w)];
  std::vector<double> expected;
  for (uint32_t t = 0; t < kThreads; ++t) {
    const auto of_host = static_cast<uint32_t>(seeds.values[t]);
    const auto first = philox4x32<uint32_t>({t, t + 1, of_host, 7}, {of_host, t});
    const auto second = philox2x32<uint32_t>({first[0], t}, of_host);
    expected.insert(expected.end(), first.begin(), first.end());
    expected.insert(expected.end(), second.begin(), second.end());
  }
  check_equal(result_of(std::move(k), {seeds}, {DType::u32, {kThreads * kWords, 1}, {}}), expected, "philox");
}

}  // namespace ptxbuilder::test::philox_test
