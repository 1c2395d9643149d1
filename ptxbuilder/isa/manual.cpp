// Implements the lookup in the manual at run time.
#include "ptxbuilder/isa/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ptxbuilder/isa/nearest.h"

namespace ptxbuilder::isa {
namespace {

using detail::AxisAt;

// Calls `visit` with `chosen` plus one choice along each of `axes`, for all combinations. The last axis
// varies fastest.
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

// Stores rows and the strings to which they refer, at addresses that never change.
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

constexpr Form kNamed[] = {
#define PTX_SECTION(title)
#define PTX_FORM(pattern, effect, ptx_version, targets)
#define PTX_NAMED_FORM(pattern, effect, ptx_version, targets) \
  Form{{pattern, sizeof(pattern) - 1}, Effect::effect, ptx_version, {#targets, sizeof(#targets) - 1}},
#include "ptxbuilder/isa/manual/manual.def"
#undef PTX_SECTION
#undef PTX_FORM
#undef PTX_NAMED_FORM
};

// Returns the pattern without the distinguishing word that may precede its mnemonic.
constexpr std::string_view behind_tag(std::string_view pattern) {
  if (pattern[0] == '#') pattern.remove_prefix(detail::find_or_end(pattern, ' ') + 1);
  return pattern;
}

// Returns whether a pattern's mnemonics begin with this word. If the first axis is a part of the word, the
// word must end with one of the choices of this axis.
bool begins(std::string_view mnemonic, std::string_view word) {
  size_t same = 0;
  while (same < word.size() && mnemonic[same] == word[same]) ++same;
  word.remove_prefix(same);
  if (mnemonic[same] != '<')
    return word.empty() && (mnemonic[same] == '.' || detail::ends_mnemonic(mnemonic[same]));
  for (size_t at = mnemonic.find('=', same); mnemonic[at] != '>'; at = mnemonic.find_first_of("|>", at + 1)) {
    const std::string_view choice = mnemonic.substr(at + 1);
    if (choice.substr(0, choice.find_first_of(".=@|>")) == word) return true;
  }
  return false;
}

// Returns a string such as "; tanh.approx.f32 is nearest: .approx is left out", or "" if no row begins with
// the same word.
std::string like(std::string_view key) {
  const Nearest near = nearest(key);
  if (near.mnemonic.empty()) return "";
  return near.has_same_words ? fmt::format("; {} has the same words", near.mnemonic)
                             : fmt::format("; {} is nearest: {}", near.mnemonic, near.differs);
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

std::span<const Form* const> forms_of(std::string_view first_word) {
  using Forms = std::vector<const Form*>;
  static const auto by_first_character = [] {
    std::array<Forms, 128> all;
    const auto add = [&](const Form& form) {
      if (!detail::is_title(form)) all[static_cast<size_t>(behind_tag(form.pattern)[0])].push_back(&form);
    };
    for (const Form& form : detail::kManual) add(form);
    for (const Form& form : kNamed) add(form);
    return all;
  }();
  static std::mutex mutex;
  static std::map<std::string, Forms, std::less<>> known;  // contains only words that have forms
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(first_word); found != known.end()) return found->second;
  Forms forms;
  for (const char first : {'<', first_word.empty() ? ' ' : first_word[0]})
    for (const Form* form : by_first_character[static_cast<unsigned char>(first) % by_first_character.size()])
      if (begins(behind_tag(form->pattern), first_word)) forms.push_back(form);
  if (forms.empty()) return {};
  return known.emplace(first_word, std::move(forms)).first->second;
}

bool has_names(const Form& form) { return &form >= std::begin(kNamed) && &form < std::end(kNamed); }

void for_each_row_of(std::string_view mnemonic,
                     const std::function<void(const Form&, const Choices&)>& visit) {
  for (const Form* form : forms_of(mnemonic.substr(0, mnemonic.find('.')))) {
    const std::string_view behind = behind_tag(form->pattern);
    Choices choices;
    if (!detail::match(behind, mnemonic, choices)) continue;
    const std::string_view tag = form->pattern.substr(0, form->pattern.size() - behind.size());
    if (tag.find('<') == std::string_view::npos)
      visit(*form, choices);
    else
      for_each_choosing(axes_of(Form{tag.substr(1)}), choices,
                        [&](const Choices& all) { visit(*form, all); });
  }
}

std::string_view section_of(const Row& row) {
  const Form* found = nullptr;
  for_each_row_of(row.mnemonic(), [&](const Form& form, const Choices& choices) {
    if (!found || detail::row_of(form, choices).syntax.view() == row.syntax) found = &form;
  });
  std::string_view section;
  for (const Form& form : detail::kManual) {
    if (detail::is_title(form)) section = form.pattern;
    if (&form == found) return section;
  }
  return {};
}

std::vector<MadeRow> rows_of(std::string_view mnemonic) {
  std::vector<MadeRow> rows;
  for_each_row_of(mnemonic, [&](const Form& form, const Choices& choices) {
    if (!has_names(form)) rows.push_back(detail::row_of(form, choices));
  });
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
      where,
      fmt::format(
          "instruction: the manual has no row '{}'{}; `ptxb isa --find TEXT` lists the rows that contain "
          "TEXT; use ptx(\"...\") for an instruction without a row, or declare a row with PTXBUILDER_ROW",
          key, like(key)));
}

}  // namespace ptxbuilder::isa
