// The manual at run time.
#include "ptxbuilder/isa/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace ptxbuilder::isa {
namespace {

using detail::AxisAt;

// Adds to `chosen` every choice along each axis, the last axis varying first.
void for_each_choosing(const std::vector<std::vector<Choice>>& axes, const Choices& chosen,
                       const std::function<void(const Choices&)>& visit) {
  size_t count = 1;
  for (const std::vector<Choice>& axis : axes) count *= axis.size();
  for (size_t nth = 0; nth < count; ++nth) {
    Choices choices = chosen;
    size_t step = count;
    for (const std::vector<Choice>& axis : axes) {
      step /= axis.size();
      choices.push(axis[nth / step % axis.size()]);
    }
    visit(choices);
  }
}

// Rows that have texts of their own, each where it stays.
class Kept {
 public:
  const Row* add(const MadeRow& made) {
    return &rows_.emplace_back(Row{keep(made.name.view()),
                                   keep(made.syntax.view()),
                                   made.effect,
                                   made.ptx_version,
                                   made.targets,
                                   {},
                                   made.early});
  }

 private:
  std::string_view keep(std::string_view text) { return texts_.emplace_back(text); }

  std::deque<std::string> texts_;
  std::deque<Row> rows_;
};

// The words of a mnemonic between its dots, without order but for the types: a conversion's say from what to
// what.
std::vector<std::string_view> words_of(std::string_view mnemonic) {
  const auto is_type = [](std::string_view word) {
    const size_t digit = word.find_first_of("0123456789");
    constexpr std::array<std::string_view, 8> kKinds = {"b", "u", "s", "f", "e", "bf", "tf", "ue"};
    return std::find(kKinds.begin(), kKinds.end(), word.substr(0, digit)) != kKinds.end();
  };
  std::vector<std::string_view> types, others;
  while (!mnemonic.empty()) {
    const std::string_view word = mnemonic.substr(0, mnemonic.find('.'));
    (is_type(word) ? types : others).push_back(word);
    mnemonic.remove_prefix(std::min(word.size() + 1, mnemonic.size()));
  }
  std::sort(others.begin(), others.end());
  others.insert(others.end(), types.begin(), types.end());
  return others;
}

// The row that has the words of a key in another order, which ptxas may take, or those that begin most like a
// key: "; mbarrier.init.b64 and 2 others begin alike". Empty without any.
std::string nearest(std::string_view key) {
  size_t longest = 0, count = 0;
  std::string first, same;
  const std::vector<std::string_view> words = words_of(key);
  for_each_instruction([&](const MadeRow& row, std::string_view) {
    const std::string_view name = row.name.view();
    if (same.empty() && name.size() == key.size() && words_of(name) == words) same = name;
    size_t length = 0;
    while (length < std::min(name.size(), key.size()) && name[length] == key[length]) ++length;
    if (length < longest) return;
    if (length > longest) first = name, count = 0;
    longest = length;
    ++count;
  });
  if (!same.empty()) return "; " + same + " has the same words";
  if (longest < 3) return "";
  return fmt::format("; {}{} alike", first,
                     count == 1   ? " begins"
                     : count == 2 ? " and another begin"
                                  : fmt::format(" and {} others begin", count - 1));
}

}  // namespace

std::vector<std::vector<Choice>> axes_of(const Form& form) {
  std::vector<std::vector<Choice>> axes;
  const detail::PatternParts parts = detail::parts_of(form.pattern);
  for (const std::string_view text : {parts.tag, parts.mnemonic})
    for (size_t at = detail::find_or_end(text, '<'); at < text.size();) {
      const AxisAt axis = detail::axis_at(text, at);
      at = detail::find_or_end(text, '<', axis.end);
      if (axis.alternatives.data() == nullptr) continue;
      std::vector<Choice>& choices = axes.emplace_back();
      for (size_t from = 0; from <= axis.alternatives.size();) {
        const size_t to = detail::find_or_end(axis.alternatives, '|', from);
        choices.push_back(detail::parse_alternative(axis.name, axis.alternatives.substr(from, to - from)));
        from = to + 1;
      }
    }
  return axes;
}

void for_each_row(const Form& form, const std::function<void(const MadeRow&)>& visit) {
  for_each_choosing(axes_of(form), {}, [&](const Choices& choices) { visit(detail::row_of(form, choices)); });
}

std::vector<MadeRow> rows_of(std::string_view mnemonic) {
  std::vector<MadeRow> rows;
  for (const Form& form : detail::kManual) {
    const detail::PatternParts parts = detail::parts_of(form.pattern);
    Choices choices;
    if (!detail::is_title(form) && !mnemonic.empty() && detail::match(parts.mnemonic, mnemonic, choices))
      for_each_choosing(axes_of(Form{parts.tag}), choices,
                        [&](const Choices& all) { rows.push_back(detail::row_of(form, all)); });
  }
  return rows;
}

void for_each_instruction(const std::function<void(const MadeRow&, std::string_view)>& visit) {
  std::string_view section;
  for (const Form& form : detail::kManual) {
    if (detail::is_title(form))
      section = form.pattern;
    else
      for_each_row(form, [&](const MadeRow& row) { visit(row, section); });
  }
}

const Row* find_instruction(std::string_view key) {
  static std::mutex mutex;
  static Kept kept;
  static std::map<std::string, const Row*, std::less<>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const MadeRow made = detail::find_row(key);
  return made.syntax.view().empty() ? nullptr : known.emplace(key, kept.add(made)).first->second;
}

const Row& instruction(std::string_view key, Where where) {
  if (const Row* row = find_instruction(key)) return *row;
  throw Error(
      where, fmt::format("instruction: '{}' has no row here{}; `ptxb isa --find TEXT` lists those that have "
                         "TEXT in them; ptx(\"...\") writes what has no row, and PTXBUILDER_ROW declares one",
                         key, nearest(key)));
}

}  // namespace ptxbuilder::isa
