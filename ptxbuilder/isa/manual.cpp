// The manual at run time.
#include "ptxbuilder/isa/manual.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace ptxbuilder::isa {
namespace {

using detail::AxisAt;

// Chooses along the axes of `text` from `at` on, then goes on with what is `left`.
void choose(std::string_view text, size_t at, Choices& choices, const std::function<void()>& left) {
  at = detail::find_or_end(text, '<', at);
  if (at == text.size()) return left();
  const AxisAt axis = detail::axis_at(text, at);
  if (axis.alternatives.data() == nullptr) return choose(text, axis.end, choices, left);
  for (size_t from = 0; from <= axis.alternatives.size();) {
    const size_t to = detail::find_or_end(axis.alternatives, '|', from);
    const size_t before = choices.count;
    choices.push(detail::parse_alternative(axis.name, axis.alternatives.substr(from, to - from)));
    choose(text, axis.end, choices, left);
    choices.count = before;
    from = to + 1;
  }
}

// Rows that have texts of their own, each where it stays.
class Kept {
 public:
  const Row* add(const MadeRow& made) {
    return &rows_.emplace_back(
        Row{keep(made.name.view()), keep(made.syntax.view()), made.effect, made.ptx_version, made.targets});
  }

 private:
  std::string_view keep(std::string_view text) { return texts_.emplace_back(text); }

  std::deque<std::string> texts_;
  std::deque<Row> rows_;
};

// The rows that begin most like a key that none has: "; mbarrier.init.b64 and 2 others begin alike".
std::string nearest(std::string_view key) {
  size_t longest = 0, count = 0;
  std::string first;
  for_each_instruction([&](const MadeRow& row, std::string_view) {
    const std::string_view name = row.name.view();
    size_t length = 0;
    while (length < std::min(name.size(), key.size()) && name[length] == key[length]) ++length;
    if (length < longest) return;
    if (length > longest) first = name, count = 0;
    longest = length;
    ++count;
  });
  if (longest < 3) return "";
  return fmt::format("; {}{} alike", first,
                     count > 1 ? fmt::format(" and {} others begin", count - 1) : " begins");
}

}  // namespace

void for_each_row(const Form& form, const std::function<void(const MadeRow&)>& visit) {
  Choices choices;
  const detail::PatternParts parts = detail::parts_of(form.pattern);
  choose(parts.tag, 0, choices,
         [&] { choose(parts.mnemonic, 0, choices, [&] { visit(detail::row_of(form, choices)); }); });
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
  throw Error(where,
              fmt::format("instruction: '{}' is no instruction of PTX{}; `ptxb isa --find TEXT` lists those "
                          "that have TEXT in them",
                          key, nearest(key)));
}

}  // namespace ptxbuilder::isa
