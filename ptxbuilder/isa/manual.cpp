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

#include "ptxbuilder/isa/nearest.h"

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

// The words with which the mnemonics of a form begin, several where the first axis is part of them.
std::vector<std::string> first_words(const Form& form) {
  const std::string_view mnemonic = detail::parts_of(form.pattern).mnemonic;
  const size_t end = std::min(mnemonic.find('.'), mnemonic.find('<'));
  if (end == std::string_view::npos || mnemonic[end] == '.') return {std::string(mnemonic.substr(0, end))};
  std::vector<std::string> words;
  const std::vector<Choice> choices = axes_of(Form{mnemonic.substr(end)})[0];
  for (const Choice& choice : choices) {
    const std::string word =
        std::string(mnemonic.substr(0, end)).append(choice.text.substr(0, choice.text.find('.')));
    if (words.empty() || words.back() != word) words.push_back(word);
  }
  return words;
}

// "; tanh.approx.f32 is nearest: .approx is left out". Empty where no row has the first word.
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
  static const auto all = [] {
    std::map<std::string, std::vector<const Form*>, std::less<>> forms;
    const auto add = [&](const Form& form) {
      if (detail::is_title(form)) return;
      for (const std::string& word : first_words(form)) forms[word].push_back(&form);
    };
    for (const Form& form : detail::kManual) add(form);
    for (const Form& form : kNamed) add(form);
    return forms;
  }();
  const auto found = all.find(first_word);
  return found == all.end() ? std::span<const Form* const>() : found->second;
}

bool has_names(const Form& form) { return &form >= std::begin(kNamed) && &form < std::end(kNamed); }

void for_each_row_of(std::string_view mnemonic,
                     const std::function<void(const Form&, const Choices&)>& visit) {
  for (const Form* form : forms_of(mnemonic.substr(0, mnemonic.find('.')))) {
    const detail::PatternParts parts = detail::parts_of(form->pattern);
    Choices choices;
    if (detail::match(parts.mnemonic, mnemonic, choices))
      for_each_choosing(axes_of(Form{parts.tag}), choices, [&](const Choices& all) { visit(*form, all); });
  }
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
      where, fmt::format("instruction: '{}' has no row here{}; `ptxb isa --find TEXT` lists those that have "
                         "TEXT in them; ptx(\"...\") writes what has no row, and PTXBUILDER_ROW declares one",
                         key, like(key)));
}

}  // namespace ptxbuilder::isa
