// Finds the mnemonic of the manual that is most similar to an unknown mnemonic.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder::isa {

struct Nearest {
  std::string mnemonic;  // empty if no mnemonic begins with the same word
  std::string differs;   // for example ".parity is left out" or ".f16 is given instead of .f32"
  // True if the mnemonics differ only in the order of words, and their types are in the same order. ptxas
  // accepts most words in any order, but the order of types determines the direction of a conversion.
  bool has_same_words = false;
};
// Returns the most similar mnemonic. The comparison considers first the words that occur in only one of the
// two mnemonics, then the order of the words, and then the length of the common prefix.
Nearest nearest(std::string_view mnemonic);

}  // namespace ptxbuilder::isa
