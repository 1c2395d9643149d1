#include "ptxbuilder/isa/query.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>

#include "ptxbuilder/isa/manual.h"
#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::isa {

std::string validate(const Row& row, std::span<const Filling> fillings, bool guarded) {
  AuthorsCode no_line;  // errors of lower() then do not name a line
  try {
    lower(row, fillings, guarded);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

RowUse uses(const Row& row) {
  RowUse use{{}, row.effect == Effect::memory};
  for (size_t i = 0; i < row.operands.size(); ++i) {
    const Operand& o = row.operands[i];
    const bool is_address = o.cls == Class::smem || o.cls == Class::cluster || o.cls == Class::gmem ||
                            o.cls == Class::generic || o.cls == Class::tmap;
    use.operands.push_back({i, o.reads(), o.writes(), is_address});
  }
  return use;
}

std::string refusal(const Row& row, const Target& target, int ptx_version) {
  if (!row.targets.has(target.sm))
    return fmt::format("{}: needs {}, but the target is {}: change the target", row.name, row.targets.text(),
                       target.name);
  if (const int needed = row.version_on(target.sm); ptx_version < needed)
    return fmt::format("{}: needs PTX {}, but the module's .version is {}: raise it", row.name,
                       version_text(needed), version_text(ptx_version));
  return "";
}

namespace {

int least_version(const auto& row) {
  return row.early.ptx_version != 0 ? row.early.ptx_version : row.ptx_version;
}

std::optional<Floor> least_floor(const std::function<bool(const detail::PatternParts&, Choices&)>& is_meant) {
  // The forms are parsed only once, because a lint calls this function for every instruction.
  static const auto parts = [] {
    std::vector<detail::PatternParts> all;
    for (const Form& form : detail::kManual) all.push_back(detail::parts_of(form.pattern));
    return all;
  }();
  std::optional<Floor> least;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Form& form = detail::kManual[i];
    Choices choices;
    if (detail::is_title(form) || !is_meant(parts[i], choices)) continue;
    const MadeRow row = detail::floor_row(form, choices);
    const int version = least_version(row);
    if (!least) least = Floor{version, row.targets};
    least->ptx_version = std::min(least->ptx_version, version);
    least->targets = least->targets | row.targets;
  }
  return least;
}

// Returns the number of operands in `text`. Operands are separated by commas outside brackets.
size_t operands_in(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n;") == std::string_view::npos) return 0;
  size_t count = 1;
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{' || c == '(') ++depth;
    if (c == ']' || c == '}' || c == ')') --depth;
    count += c == ',' && depth == 0;
  }
  return count;
}

}  // namespace

Floor floor_of(const Row& row) { return {least_version(row), row.targets}; }

std::optional<Floor> floor_of(std::string_view mnemonic, size_t operands) {
  const auto floor = least_floor([&](const detail::PatternParts& parts, Choices& choices) {
    return !parts.tag.starts_with('%') && operands_in(parts.operands) == operands &&
           detail::match(parts.mnemonic, mnemonic, choices);
  });
  return floor ? floor : floor_of(mnemonic);
}

std::optional<Floor> floor_of(std::string_view mnemonic) {
  return least_floor([&](const detail::PatternParts& parts, Choices& choices) {
    return !parts.tag.starts_with('%') && detail::match(parts.mnemonic, mnemonic, choices);
  });
}

std::optional<Floor> floor_of_alike(std::string_view mnemonic) {
  size_t most = 0;
  std::optional<Floor> least;
  for_each_instruction([&](const MadeRow& made, std::string_view) {
    const Row row = made.row();
    const std::string_view other = row.mnemonic();
    size_t same = 0;  // length of the common leading words
    for (size_t i = 0; i <= std::min(mnemonic.size(), other.size()); ++i) {
      const bool ends = i == mnemonic.size() || mnemonic[i] == '.',
                 ends_there = i == other.size() || other[i] == '.';
      if (ends && ends_there) same = i;
      if (i == mnemonic.size() || i == other.size() || mnemonic[i] != other[i]) break;
    }
    if (same == 0 || same < most) return;
    const int version = least_version(row);
    if (same > most || !least) least = Floor{version, row.targets};
    most = same;
    least->ptx_version = std::min(least->ptx_version, version);
    least->targets = least->targets | row.targets;
  });
  return least;
}

std::optional<Floor> floor_of_register(std::string_view name) {
  return least_floor([&](const detail::PatternParts& parts, Choices& choices) {
    return parts.tag.starts_with('%') && detail::match(parts.tag, name, choices);
  });
}

Targets advised_for(std::string_view mnemonic) {
  constexpr Targets kForMulticast = Targets::parse("sm_90a+sm_100f+sm_110f");
  return mnemonic.find(".multicast::cluster") == std::string_view::npos ? Targets::all() : kForMulticast;
}

std::vector<Mentioned> instructions_in(std::string_view text) {
  std::vector<Mentioned> found;
  const auto skip = [&](size_t count) { text.remove_prefix(std::min(count, text.size())); };
  const auto skip_behind = [&](std::string_view mark) {
    skip(text.find(mark) == text.npos ? text.npos : text.find(mark) + mark.size());
  };
  while (!text.empty()) {
    skip(text.find_first_not_of(" \t\r\n;{}"));
    const std::string_view word = text.substr(0, text.find_first_of(" \t\r\n;{}"));
    if (word.starts_with("//")) {
      skip_behind("\n");
    } else if (word.starts_with("/*")) {
      skip_behind("*/");
    } else if (word.starts_with('@') || word.ends_with(':')) {
      skip(word.size());
    } else {
      skip(word.size());
      const std::string_view rest = text.substr(0, text.find(';'));
      if (!word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) != 0 &&
          word.find('.') != word.npos)
        found.push_back({word, operands_in(rest)});
      skip(text.find(';'));
    }
  }
  return found;
}

std::string example(const Row& row) {
  const auto type = [](const Operand& o) {
    std::string_view name = isa::name(o.cls);
    if (o.cls == Class::b8 || o.cls == Class::b16) name = "u16";
    if (o.cls == Class::b32) name = "u32";
    if (o.cls == Class::b64) name = "u64";
    if (o.cls == Class::cluster) name = "cluster_smem";
    if (o.cls == Class::generic) name = "generic_address";
    if (o.cls == Class::local) name = "local_address";
    if (o.cls == Class::constant) name = "constant_address";
    if (o.cls == Class::tmap) name = "TensorMap";
    return o.list ? fmt::format("std::array<{}, {}>", name, o.count) : std::string(name);
  };
  if (std::ranges::any_of(row.operands,
                          [](const Operand& o) { return o.cls == Class::name || o.cls == Class::names; }))
    return {};
  std::vector<std::string> results, arguments;
  std::string only;
  for (const Operand& o : row.operands) {
    if (o.writes()) results.emplace_back(o.name), only = type(o);
    if (o.reads())
      arguments.emplace_back(o.cls == Class::imm ? std::to_string(o.takes_number(1) ? 1 : o.least)
                                                 : std::string(o.name));
  }
  const bool is_key = row.name.starts_with(row.mnemonic());
  const std::string call = fmt::format(
      "{}({});", is_key ? fmt::format("instruction<\"{}\">", row.name) : std::string(typed_call(row)),
      fmt::join(arguments, ", "));
  if (results.empty()) return call;
  if (results.size() == 1) return fmt::format("{} {} = {}", only, results[0], call);
  return fmt::format("auto [{}] = {}", fmt::join(results, ", "), call);
}

std::string listing(const Row& row) {
  return fmt::format("{:46} PTX {:4} {:7} {:7} {}", row.name, version_text(row.ptx_version),
                     row.targets.text(), row.effect == Effect::pure ? "pure" : "memory", row.syntax);
}

}  // namespace ptxbuilder::isa
