// Finds the mnemonic of the manual that is most similar to an unknown mnemonic.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder::isa {

struct Nearest {
  std::string mnemonic;  // empty if no mnemonic begins with the same word
  std::string differs;   // ".parity is left out", ".f16 is given instead of .f32"
  // True if only the order of words differs, except the order of types, which determines the direction of a
  // conversion. ptxas accepts most words in any order.
  bool has_same_words = false;
};
// Returns the most similar mnemonic. Words that occur in only one of the two mnemonics count most, then the
// order of words, and then the length of the common prefix.
Nearest nearest(std::string_view mnemonic);

}  // namespace ptxbuilder::isa
