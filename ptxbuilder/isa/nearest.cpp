#include "ptxbuilder/isa/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "ptxbuilder/isa/manual.h"

namespace ptxbuilder::isa {
namespace {

using Words = std::vector<std::string_view>;

constexpr size_t kMostWords = 63;  // no row has even a third as many words

Words words_of(std::string_view mnemonic) {
  Words words;
  for (size_t from = 0; from <= mnemonic.size();) {
    const size_t to = std::min(mnemonic.find('.', from), mnemonic.size());
    words.push_back(mnemonic.substr(from, to - from));
    from = to + 1;
  }
  return words;
}

// Holds all mnemonics of the manual that begin with a given word. Their words are stored as numbers, so that
// thousands of mnemonics can be compared quickly.
class Beginning {
 public:
  explicit Beginning(std::string_view first_word) {
    for (const Form* form : forms_of(first_word))
      for_each_row(Form{detail::parts_of(form->pattern).mnemonic}, [&](const MadeRow& row) {
        const std::string_view mnemonic = row.name.view();
        if (mnemonic.substr(0, mnemonic.find('.')) != first_word) return;
        for (const std::string_view word : words_of(mnemonic))
          numbers_.push_back(
              numbers_of_.try_emplace(std::string(word), static_cast<int>(numbers_of_.size())).first->second);
        ends_.push_back(numbers_.size());
      });
    texts_.resize(numbers_of_.size());
    for (const auto& [text, number] : numbers_of_) texts_[static_cast<size_t>(number)] = text;
  }

  // Finds the words of the most similar mnemonic.
  Words nearest(const Words& given) const {
    std::vector<int> numbers;
    for (const std::string_view word : given) {
      const auto found = numbers_of_.find(word);
      numbers.push_back(found == numbers_of_.end() ? -1 : found->second);
    }
    std::tuple<size_t, size_t, size_t> least{SIZE_MAX, 0, 0};
    size_t of_least = 0;
    for (size_t i = 0; i < ends_.size(); ++i)
      if (const auto distance = distance_of(numbers, i); distance < least) least = distance, of_least = i;
    Words words;
    for (size_t w = begin(of_least); w < ends_[of_least]; ++w)
      words.push_back(texts_[static_cast<size_t>(numbers_[w])]);
    return words;
  }

 private:
  size_t begin(size_t i) const { return i == 0 ? 0 : ends_[i - 1]; }

  // Returns the distance between two mnemonics, as three numbers in order of importance. They are the number
  // of words that only one mnemonic contains, the number of words of mnemonic i that are out of place, and
  // the number of its words from the first difference to the end.
  std::tuple<size_t, size_t, size_t> distance_of(const std::vector<int>& given, size_t i) const {
    const auto *first = numbers_.data() + begin(i), *last = numbers_.data() + ends_[i];
    const size_t size = ends_[i] - begin(i);
    uint64_t met = 0;  // one bit for each of the row's words that matches a given word
    size_t common = 0, same_place = 0, same_beginning = 0;
    for (size_t g = 0; g < given.size(); ++g) {
      if (g < size && first[g] == given[g]) {
        ++same_place;
        same_beginning += same_beginning == g;
      }
      for (const int* at = first; at != last; ++at)
        if (const uint64_t bit = uint64_t{1} << (at - first); *at == given[g] && !(met & bit)) {
          met |= bit;
          ++common;
          break;
        }
    }
    return {given.size() + size - 2 * common, size - same_place, size - same_beginning};
  }

  std::map<std::string, int, std::less<>> numbers_of_;
  std::vector<std::string_view> texts_;
  std::vector<int> numbers_;  // numbers of the words of all mnemonics, concatenated
  std::vector<size_t> ends_;
};

const Beginning& beginning(std::string_view first_word) {
  static std::mutex mutex;
  static std::map<std::string, Beginning, std::less<>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(first_word);
  return found != known.end() ? found->second
                              : known.try_emplace(std::string(first_word), first_word).first->second;
}

// Returns the words of mnemonic `one` that `other` does not contain, counting repetitions.
Words without(const Words& one, Words other) {
  Words rest;
  for (const std::string_view word : one) {
    const auto at = std::ranges::find(other, word);
    if (at == other.end())
      rest.push_back(word);
    else
      other.erase(at);
  }
  return rest;
}

bool is_type(std::string_view word) {
  constexpr std::array<std::string_view, 8> kKinds = {"b", "u", "s", "f", "e", "bf", "tf", "ue"};
  return std::ranges::find(kKinds, word.substr(0, word.find_first_of("0123456789"))) != kKinds.end();
}

bool has_same_words(Words one, Words other) {
  Words types, other_types;
  std::ranges::copy_if(one, std::back_inserter(types), is_type);
  std::ranges::copy_if(other, std::back_inserter(other_types), is_type);
  std::ranges::sort(one);
  std::ranges::sort(other);
  return one == other && types == other_types;
}

std::string dotted(const Words& words) { return fmt::format(".{}", fmt::join(words, ".")); }

std::string difference(const Words& given, const Words& row) {
  const Words lacks = without(row, given), more = without(given, row);
  if (!lacks.empty() && !more.empty())
    return fmt::format("{} is given instead of {}", dotted(more), dotted(lacks));
  if (!lacks.empty()) return fmt::format("{} is left out", dotted(lacks));
  if (!more.empty()) return fmt::format("{} is one word too many", dotted(more));
  Words moved;
  for (size_t i = 0; i < row.size(); ++i)
    if (row[i] != given[i]) moved.push_back(given[i]);
  return moved.size() == 2 ? fmt::format(".{} and .{} are swapped", moved[0], moved[1])
                           : fmt::format("{} are in another order", dotted(moved));
}

}  // namespace

Nearest nearest(std::string_view mnemonic) {
  const std::string_view first = mnemonic.substr(0, mnemonic.find('.'));
  const Words given = words_of(mnemonic);
  if (forms_of(first).empty() || given.size() > kMostWords) return {};
  const Words row = beginning(first).nearest(given);
  return {fmt::format("{}", fmt::join(row, ".")), difference(given, row), has_same_words(given, row)};
}

}  // namespace ptxbuilder::isa
