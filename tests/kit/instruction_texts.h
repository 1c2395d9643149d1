// Compares PTX of two origins instruction by instruction. It is separate from the tests, since ptx() of the
// library and the namespace of the parser share a name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::test {

class InstructionTexts {
 public:
  // The functions of the text all have these parameters.
  InstructionTexts(const std::string& text, std::vector<std::string> parameters);

  // Returns a function's instructions of the mnemonic's kind, which is its first word. A register is shown as
  // the parameter or the number that it holds, or as the number of the instruction's result. Moves of
  // operands, such as mov and cvt, count only if they have the mnemonic itself.
  std::vector<std::string> of(const std::string& function, std::string_view mnemonic) const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace ptxbuilder::test
