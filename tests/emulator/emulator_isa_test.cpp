// The emulator decodes every instruction that the library can emit.
#include <doctest/doctest.h>

#include "ptxbuilder/isa/rows.h"
#include "ptxbuilder/isa/target.h"
#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::test::emulator_isa_test {

namespace emulator = ptxbuilder::runtime::emulator;

namespace {

// Why an instruction of the kernel `row` is not executed; "" where all are.
std::string refusal(const std::string& text) {
  const ptx_text::Module module = ptx_text::parse(text);
  emulator::GlobalMemory memory;
  const emulator::Kernel kernel = emulator::Decoder(module, "row", memory).run();
  return kernel.refused.empty() ? "" : kernel.refused.begin()->second;
}

}  // namespace

TEST_CASE("the emulator decodes every row of the instruction table") {
  std::string text;
  for (const isa::Row& row : isa::rows()) {
    text = isa::standalone_module(row, row.targets.least(), row.ptx_version);
    const std::string why = refusal(text);
    CHECK_MESSAGE(why.empty(), row.name << ": " << why);
  }
  // The last with a mnemonic that is none.
  text.insert(text.rfind("\n\tret;"), "\n\tnonsense.b32;");
  CHECK(refusal(text) == "the emulator does not know this instruction");
}

}  // namespace ptxbuilder::test::emulator_isa_test
