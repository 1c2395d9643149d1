// Helpers that tests of proofs share. They build the record of a kernel that is found by its name, and format
// a proof as text.
#pragma once

#include "kernels/family/family.h"
#include "ptxbuilder/proof/proof.h"

namespace ptxbuilder::test {

inline std::string text_of(const Proof& proof) { return proof ? "" : proof.counterexample->text(); }

using Values = std::vector<std::pair<const char*, int64_t>>;

inline KernelRecord record_of(const char* kernel, const Values& values = {}) {
  const command::Family& family = command::family(kernel);
  command::Fields fields(family.fields);
  for (const auto& [name, value] : values) fields.set(name, value);
  return family.build(fields).record();
}

inline uint64_t elements_of(const Proof& proof, std::string_view link) {
  uint64_t sum = 0;
  for (const Proof::Link& l : proof.links)
    if (l.text.starts_with(link)) sum += l.elements;
  return sum;
}

}  // namespace ptxbuilder::test
