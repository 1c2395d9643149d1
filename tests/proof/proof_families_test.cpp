// Proves every kernel of `ptxb` with its default fields.
#include <doctest/doctest.h>

#include "proof_kit.h"

namespace ptxbuilder::test::proof_families_test {

TEST_CASE("every kernel is proved with its default fields") {
  CHECK(command::families().size() >= 6);
  int whole = 0;  // kernels with products whose operands are all proved
  for (const command::Family& family : command::families()) {
    Kernel kernel = family.build(command::Fields(family.fields));
    Proof proof = prove(kernel.record());
    CAPTURE(family.name);
    CHECK_MESSAGE(proof, text_of(proof));
    CHECK(proof.unproved.empty());
    const KernelRecord& record = kernel.record();
    CHECK((proof.elements() > 0) == (!record.copies.empty() || !record.thread_copies.empty()));
    CHECK((elements_of(proof, "mma: ") > 0) == !record.mmas.empty());
    CHECK((elements_of(proof, "mma.sync") > 0) == !record.warp_mmas.empty());
    CHECK((elements_of(proof, "store: accumulators") > 0) == !record.stores.empty());
    whole += !record.mmas.empty() || !record.warp_mmas.empty();
  }
  CHECK(whole >= 9);
}

}  // namespace ptxbuilder::test::proof_families_test
