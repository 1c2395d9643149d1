#include "ptxbuilder/compile/lz4.h"

#include <fmt/format.h>

#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

// Unpacks a block. A block is a series of sequences, and a sequence consists of a token with two 4-bit
// lengths, literals, and a match in earlier text.
class Unpacking {
 public:
  Unpacking(std::string_view block, size_t size) : block_(block), size_(size) { text_.reserve(size); }

  std::string run() {
    while (at_ < block_.size()) {
      const uint8_t token = byte();
      literals(length(token >> 4));
      if (at_ == block_.size()) break;  // the last sequence has no match
      const size_t low = byte(), back = low + 256 * size_t{byte()};
      match(back, length(token & 15) + 4);
    }
    if (text_.size() != size_) fail(fmt::format("it ends after {} B of {}", text_.size(), size_));
    return std::move(text_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("LZ4 block, byte {}: {}", at_, what));
  }
  uint8_t byte() {
    if (at_ == block_.size()) fail("it ends within a sequence");
    return static_cast<uint8_t>(block_[at_++]);
  }
  size_t length(size_t nibble) {
    size_t all = nibble;
    for (size_t more = nibble == 15 ? 255 : 0; more == 255; all += more) more = byte();
    return all;
  }
  void room(size_t bytes) const {
    if (bytes > size_ - text_.size())
      fail(fmt::format("the data is {} B longer than the {} B to which it should unpack",
                       bytes - (size_ - text_.size()), size_));
  }
  void literals(size_t bytes) {
    if (bytes > block_.size() - at_)
      fail(fmt::format("{} literals, but {} B left", bytes, block_.size() - at_));
    room(bytes);
    text_ += block_.substr(at_, bytes);
    at_ += bytes;
  }
  void match(size_t back, size_t bytes) {
    if (back == 0 || back > text_.size())
      fail(fmt::format("a match {} B back, after {} B", back, text_.size()));
    room(bytes);
    for (size_t i = 0; i < bytes; ++i) text_ += text_[text_.size() - back];  // the match may overlap its copy
  }

  std::string_view block_;
  size_t size_, at_ = 0;
  std::string text_;
};

}  // namespace

std::string unpack_lz4(std::string_view block, size_t size) { return Unpacking(block, size).run(); }

}  // namespace ptxbuilder
