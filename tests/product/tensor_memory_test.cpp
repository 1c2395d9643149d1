// Tests products in tensor memory: the PTX of blackwell_tile, which ptxas accepts, and refused products. The
// kernel has not run on a device; emulator_tensor_memory_test runs it on the emulator.
#include "ptxbuilder/product/tensor_memory.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "kernels/family/family.h"
#include "library_kit.h"
#include "ptxas_kit.h"
#include "ptxbuilder/proof/proof.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder::test::tensor_memory_test {
namespace {

Kernel tile(const std::vector<std::pair<std::string, std::string>>& values) {
  const command::Family& family = command::family("blackwell_tile");
  command::Fields fields(family.fields);
  for (const auto& [name, value] : values) fields.set(name, value);
  return family.build(fields);
}

// Fails if a part does not follow the previous one, and names the first such part.
void check_order(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = text.find(part, at);
    REQUIRE_MESSAGE(found != std::string::npos, part << " is not after the part before in\n" << text);
    at = found + part.size();
  }
}

}  // namespace

TEST_CASE("blackwell_tile: the instructions in their order") {
  Kernel k = tile({{"bn", "128"}, {"a", "f16"}});
  const std::string ptx = squeezed(ptx_of(k));
  CHECK(contains(ptx, ".target sm_100a"));
  const std::string mma = "tcgen05.mma.cta_group::1.kind::f16 [%r",
                    commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r",
                    load = "{ tcgen05.ld.sync.aligned.32x32b.x64.b32 {%r";
  check_order(ptx, {"mbarrier.init.shared::cta.b64",
                    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r",
                    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
                    "tcgen05.fence::before_thread_sync;",
                    "bar.sync 0;",
                    "tcgen05.fence::after_thread_sync;",
                    "ld.shared::cta.u32",
                    "elect.sync",
                    "mbarrier.try_wait.parity",  // the stage is empty
                    "mbarrier.arrive.expect_tx",
                    "cp.async.bulk.tensor.2d",
                    "cp.async.bulk.tensor.2d",
                    "elect.sync",
                    "mbarrier.try_wait.parity",  // the stage is full
                    "tcgen05.fence::after_thread_sync;",
                    mma,
                    mma,
                    mma,
                    mma,
                    commit,  // the stage has been read
                    commit,  // all products are complete
                    "bar.sync 0;",
                    "mbarrier.try_wait.parity",
                    "tcgen05.fence::after_thread_sync;",
                    load,
                    "tcgen05.wait::ld.sync.aligned; }",
                    "cvt.rn.bf16x2.f32",
                    "st.shared",
                    load,
                    "tcgen05.wait::ld.sync.aligned; }",
                    "fence.proxy.async.shared::cta",
                    "cp.async.bulk.tensor.2d.global.shared::cta",
                    "tcgen05.fence::before_thread_sync;",
                    "bar.sync 0;",
                    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r"});
  // The descriptors of the instruction (f16, 128 x 128) and of the matrices (128-byte swizzle, with 1024
  // bytes from 8 rows to the next).
  CHECK(contains(ptx, fmt::format(", {}, %p", 0x08200010)));
  CHECK(contains(ptx, fmt::format(", {};", 0x4000'4040'0001'0000)));
  CHECK(count(ptx, mma) == 4);  // 64 of k, 16 in each
  CHECK(count(ptx, load) == 2);
  CHECK(count(ptx, "wgmma") == 0);
}

TEST_CASE("blackwell_tile: ptxas accepts it, and its descriptors read what its copies wrote") {
  const Ptxas* ptxas = real_ptxas();
  using Values = std::vector<std::pair<std::string, std::string>>;
  for (const Values& values :
       {Values{}, Values{{"a", "f16"}, {"d", "f16"}, {"bn", "64"}, {"stages", "1"}},
        Values{{"b_major", "n"}, {"bn", "192"}, {"bk", "128"}, {"stages", "2"}, {"d", "f32"}},
        Values{{"b_major", "n"}, {"a", "f16"}, {"stages", "3"}}}) {
    Kernel k = tile(values);
    const Proof proof = prove(k.record());
    CHECK(proof);
    uint64_t read = 0;
    for (const Proof::Link& link : proof.links) read += link.text.starts_with("mma: ") ? link.elements : 0;
    const command::Fields fields = [&] {
      command::Fields f(command::family("blackwell_tile").fields);
      for (const auto& [name, value] : values) f.set(name, value);
      return f;
    }();
    CHECK(read == static_cast<uint64_t>(fields["stages"] * fields["bk"] * (128 + fields["bn"])));
    if (!ptxas) continue;
    const PtxasOutput made = ptxas->assemble(ptx_of(k));
    CHECK(
        made.cubin.starts_with("\x7f"
                               "ELF"));
  }
}

TEST_CASE("tensor memory: refused uses") {
  auto error = [](auto body) {
    Kernel k("refused", {.target = "sm_100a", .line_info = false});
    return error_of([&] { body(k); });
  };
  CHECK(contains(error([](Kernel& k) { TensorAccumulator acc(k, 24); }),
                 "D has 24 columns, but with 128 rows it must have a multiple of 16, at most 256"));
  CHECK(contains(error([](Kernel& k) {
                   TensorAccumulator acc(k, 64);
                   generate_ptx(k.builder());
                 }),
                 "call free()"));
  CHECK(contains(error([](Kernel& k) {
                   auto a = k.shared<f16>({128, 64}, Swizzle128B), b = k.shared<bf16>({64, 64}, Swizzle128B);
                   TensorAccumulator acc(k, 64);
                   mma(acc, a[0], b[0]);
                 }),
                 "their types must be equal"));
  CHECK(contains(error([](Kernel& k) {
                   auto a = k.shared<f16>({64, 64}, Swizzle128B), b = k.shared<f16>({64, 64}, Swizzle128B);
                   TensorAccumulator acc(k, 64);
                   mma(acc, a[0], b[0]);
                 }),
                 "the shapes do not match in D 128x64 += A 64x64 B 64x64"));
  CHECK(
      contains(error([](Kernel& k) {
                 auto a = k.shared<e4m3>({128, 128}, Swizzle128B), b = k.shared<e4m3>({64, 128}, Swizzle128B);
                 TensorAccumulator acc(k, 64);
                 mma(acc, a[0], b[0]);
               }),
               "A is e4m3, but .kind::f16 takes f16 and bf16"));
  CHECK(contains(error([](Kernel& k) {
                   TensorAccumulator acc(k, 64);
                   load(acc, 32, 64);
                 }),
                 "columns 32 to 95 of 64 in tensor memory"));
  Kernel hopper("hopper", {.target = "sm_90a", .line_info = false});
  CHECK(contains(error_of([&] { TensorAccumulator acc(hopper, 64); }), "needs sm_100f, sm_110f"));
}

}  // namespace ptxbuilder::test::tensor_memory_test
