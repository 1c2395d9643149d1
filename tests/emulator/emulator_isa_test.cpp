// Checks that the emulator decodes every instruction that the library can emit, and those of the manual for
// sm_90a.
#include <doctest/doctest.h>

#include "form_rows.h"
#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/rows.h"
#include "ptxbuilder/isa/target.h"
#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::test::emulator_isa_test {

namespace emulator = ptxbuilder::runtime::emulator;

namespace {

// Returns the reason why the emulator does not execute an instruction of the kernel `row`, or "" if it
// executes all instructions.
std::string refusal(const std::string& text) {
  emulator::GlobalMemory memory;
  try {
    const ptx_text::Module module = ptx_text::parse(text);
    const emulator::Kernel kernel = emulator::Decoder(module, "row", memory).run();
    return kernel.refused.empty() ? "" : kernel.refused.begin()->second;
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("the emulator decodes every row of the instruction table") {
  std::string text;
  for (const isa::Row& row : isa::rows()) {
    text = isa::standalone_module(row, row.targets.least(), row.ptx_version);
    const std::string why = refusal(text);
    CHECK_MESSAGE(why.empty(), row.name << ": " << why);
  }
  // The last row has a mnemonic that does not exist.
  text.insert(text.rfind("\n\tret;"), "\n\tnonsense.b32;");
  CHECK(refusal(text) == "the emulator does not know this instruction");
}

TEST_CASE("the emulator decodes what the manual has for sm_90a") {
  const isa::Target* hopper = nullptr;
  for (const isa::Target& target : isa::targets())
    if (target.name == "sm_90a") hopper = &target;
  REQUIRE(hopper != nullptr);
  size_t rows = 0;
  for (const isa::Form& form : isa::detail::kManual) {
    if (isa::detail::is_title(form)) continue;
    for_each_choice(form, [&](const isa::MadeRow& made) {
      if (!made.targets.has(hopper->sm)) return;
      const isa::Row row = made.row();
      ++rows;
      const std::string why = refusal(
          isa::standalone_module(row, *hopper, std::max(row.version_on(hopper->sm), hopper->ptx_version)));
      CHECK_MESSAGE(why.empty(), row.name << ": " << why);
    });
  }
  CHECK(rows > 4000);
}

TEST_CASE("each decoder is of instructions that the manual has") {
  for (const auto& [key, decoder] : emulator::decode_table()) {
    bool has_row = false;
    for (const isa::Form* form : isa::forms_of(key.substr(0, key.find('.'))))
      for_each_choice(isa::Form{isa::detail::parts_of(form->pattern).mnemonic},
                      [&, &name = key](const isa::MadeRow& row) {
                        const std::string_view mnemonic = row.name.view();
                        has_row |= mnemonic == name || mnemonic.starts_with(std::string(name) + ".");
                      });
    CHECK_MESSAGE(has_row, key);
  }
}

}  // namespace ptxbuilder::test::emulator_isa_test
