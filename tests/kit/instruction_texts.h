// Compares PTX of two origins instruction by instruction. This file is separate from the tests, because the
// library's ptx() and the parser's namespace have the same name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::test {

class InstructionTexts {
 public:
  // All functions of the text have these parameters.
  InstructionTexts(const std::string& text, std::vector<std::string> parameters);

  // Returns a function's instructions whose opcode starts with the same word as the mnemonic. A register is
  // shown as the parameter or number that it holds, or as a numbered result. Instructions that move operands,
  // such as mov and cvt, count only if they have the mnemonic itself.
  std::vector<std::string> of(const std::string& function, std::string_view mnemonic) const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace ptxbuilder::test
