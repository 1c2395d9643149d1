#include "kernels/inspect/annotate.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/inspect/ncu.h"
#include "kernels/inspect/sass.h"
#include "ptxbuilder/compile/line_map.h"
#include "ptxbuilder/compile/nvdisasm.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;
using analysis::SassInstruction;

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.substr(0, text.find_last_not_of(" \t\r") + 1);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(trimmed(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

// Returns the contents of a file, or "" if the file does not exist.
std::string read(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return "";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The contents of the C++ files. Each file is read once; a file that does not exist counts as empty.
class Sources {
 public:
  explicit Sources(std::string folder) : folder_(std::move(folder)) {}

  std::string line(const SourceLine& at) {
    if (!at) return "";
    const auto [file, is_new] = files_.try_emplace(at.file);
    if (is_new) file->second = lines_of(read((std::filesystem::path(folder_) / at.file).string()));
    return at.line <= file->second.size() ? file->second[at.line - 1] : "";
  }

 private:
  std::string folder_;
  std::map<std::string, std::vector<std::string>> files_;
};

// The numbers of instructions and samples of a line of C++.
struct Cost {
  int ptx = 0, sass = 0;
  uint64_t samples = 0;
};

class Annotator {
 public:
  explicit Annotator(const Annotation& what)
      : what_(what), map_(what.ptx), ptx_lines_(lines_of(what.ptx)), sources_(what.folder) {
    const ptx_text::Module module = ptx_text::parse(what.ptx);
    const analysis::Code code = analysis::Code::of(module, what.kernel);
    for (const analysis::Operation& o : code.operations) {
      if (o.is_wgmma()) products_.push_back({o.at.line, shape_of_wgmma(o)});
      ptx_operations_.push_back(static_cast<int>(o.at.line));
      ++costs_[key(map_.at(static_cast<int>(o.at.line)))].ptx;
    }
    if (what.cubin.empty()) return;
    sass_ = sass_of(what.cubin, what.kernel, what.nvdisasm, true);
    find_lines_of_products();
    if (!what.ncu.empty()) take_samples();
    for (size_t i = 0; i < sass_->instructions.size(); ++i) {
      Cost& cost = costs_[key(source(sass_->instructions[i]))];
      ++cost.sass;
      if (!samples_.empty()) cost.samples += samples_[i];
    }
  }

  std::string text() {
    return fmt::format("{}: {} PTX instructions{}{}\n\n{}\n{}", what_.kernel, ptx_operations_.size(),
                       sass_ ? fmt::format(", {} SASS instructions", sass_->instructions.size()) : "",
                       samples_.empty() ? "" : fmt::format(", {} samples", total()), table(),
                       sass_ ? sass_listing() : ptx_listing());
  }

  std::string json() {
    Json lines = Json::array(), listing = Json::array();
    for (const auto& [at, cost] : costs_) {
      Json line = {{"file", at.first},
                   {"line", at.second},
                   {"source", sources_.line({at.first, at.second})},
                   {"ptx", cost.ptx}};
      if (sass_) line["sass"] = cost.sass;
      if (!samples_.empty()) line["samples"] = cost.samples;
      lines.push_back(std::move(line));
    }
    for (size_t i = 0; sass_ && i < sass_->instructions.size(); ++i) {
      const SassInstruction& s = sass_->instructions[i];
      const SourceLine at = source(s);
      listing.push_back({{"address", s.address},
                         {"sass", s.text()},
                         {"ptx_line", s.line},
                         {"ptx", ptx_text(static_cast<int>(s.line))},
                         {"file", at.file},
                         {"line", at.line}});
      if (!samples_.empty()) listing.back()["samples"] = samples_[i];
    }
    Json json = {{"kernel", what_.kernel}, {"ptx_instructions", ptx_operations_.size()}, {"lines", lines}};
    if (sass_) json["sass"] = listing;
    return json.dump(2) + "\n";
  }

 private:
  using Key = std::pair<std::string, unsigned>;  // file and line
  static Key key(const SourceLine& at) { return {at.file, at.line}; }

  SourceLine source(const SassInstruction& i) const { return map_.at(static_cast<int>(i.line)); }
  std::string ptx_text(int line) const {
    if (line < 1 || static_cast<size_t>(line) > ptx_lines_.size()) return "";
    std::string text;
    for (const char c : ptx_lines_[static_cast<size_t>(line) - 1])
      if (c != '\t' || !text.ends_with(' ')) text += c == '\t' ? ' ' : c;
    return text;
  }
  uint64_t total() const {
    uint64_t all = 0;
    for (const uint64_t n : samples_) all += n;
    return all;
  }

  struct Product {
    uint32_t line;
    std::string shape;  // for example "64x256x16"
  };

  // Returns the shape in a mnemonic such as wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16.
  static std::string shape_of_wgmma(const analysis::Operation& o) {
    for (const std::string_view word : o.words) {
      const size_t n = word.find('n'), k = word.find('k');
      if (word.starts_with('m') && n < k && k != std::string_view::npos)
        return fmt::format("{}x{}x{}", word.substr(1, n - 1), word.substr(n + 1, k - n - 1),
                           word.substr(k + 1));
    }
    return "";
  }
  static bool is_product(const SassInstruction& i) { return i.root().ends_with("GMMA"); }

  // ptxas (13.0) does not assign a line to the instructions of wgmma, so they seem to belong to the preceding
  // line. They are in the same order as in the PTX, which therefore determines their lines. If their number
  // or shapes differ from those in the PTX, their lines are unknown.
  void find_lines_of_products() {
    size_t n = 0;
    bool fits = true;
    for (const SassInstruction& i : sass_->instructions) {
      if (!is_product(i)) continue;
      fits &= n < products_.size() && i.opcode.find("." + products_[n].shape) != std::string::npos;
      ++n;
    }
    fits &= n == products_.size();
    n = 0;
    for (SassInstruction& i : sass_->instructions)
      if (is_product(i)) i.line = fits ? products_[n++].line : 0;
  }

  // Assigns the profile's samples to the instructions in order. The opcodes show whether the profile belongs
  // to this kernel.
  void take_samples() try {
    const std::string csv = read(what_.ncu);
    if (csv.empty()) throw Error("it cannot be read, or is empty");
    const std::vector<Sampled> all = parse_ncu(csv);
    const auto& instructions = sass_->instructions;
    for (size_t i = 0; i < std::max(all.size(), instructions.size()); ++i) {
      const std::string here = i < instructions.size() ? instructions[i].text() : "the end";
      const std::string there = i < all.size() ? all[i].instruction : "the end";
      if (i >= all.size() || i >= instructions.size() ||
          there.find(instructions[i].opcode) == std::string::npos)
        throw Error(
            fmt::format("it is the profile of another kernel: instruction {} is '{}' there, but '{}' here", i,
                        trimmed(there), here));
      samples_.push_back(all[i].samples);
    }
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", what_.ncu, e.what()));
  }

  std::string share(uint64_t samples) const {
    if (samples_.empty()) return "";
    return fmt::format(" {:6.1f} %", 100.0 * static_cast<double>(samples) /
                                         static_cast<double>(std::max<uint64_t>(total(), 1)));
  }

  std::string table() {
    auto cell = [&](bool is_there, const std::string& value) { return is_there ? value : ""; };
    std::string text = without_blanks_behind(fmt::format("{:>6} {:>5} {:>5}{}", "line", "PTX",
                                                         cell(sass_.has_value(), "SASS"),
                                                         cell(!samples_.empty(), "  samples")));
    std::string file;
    for (const auto& [at, cost] : costs_) {
      if (at.first != file) text += (file = at.first) + "\n";
      text += without_blanks_behind(fmt::format("{:>6} {:5} {:>5}{}  {}",
                                                at.second ? std::to_string(at.second) : "none", cost.ptx,
                                                cell(sass_.has_value(), std::to_string(cost.sass)),
                                                share(cost.samples), sources_.line({at.first, at.second})));
    }
    return text;
  }

  // Returns the text of the margin, such as "gemm.cpp:14 the source text"; without the source text if the
  // line is the same as in the previous row.
  std::string margin(const SourceLine& at) {
    if (!at) return "";
    const bool same = at == last_source_;
    last_source_ = at;
    return same ? to_string(at) : fmt::format("{} {}", to_string(at), sources_.line(at));
  }

  static std::string without_blanks_behind(const std::string& text) {
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  // Returns a row of the listing. Text that is longer than its column is truncated; fmt's precision counts
  // columns.
  static std::string row(const std::string& left, const std::string& middle, const std::string& right) {
    return without_blanks_behind(fmt::format("{:60.60} {:60.60} {}", left, middle, right));
  }

  std::string sass_listing() {
    std::string text = row("SASS", "PTX", "C++");
    uint32_t ptx = 0;
    for (size_t n = 0; n < sass_->instructions.size(); ++n) {
      if (const auto labels = sass_->labels.find(static_cast<int>(n)); labels != sass_->labels.end())
        for (const std::string& label : labels->second) text += label + ":\n";
      const SassInstruction& i = sass_->instructions[n];
      const bool same = i.line == std::exchange(ptx, i.line);
      text += row(
          fmt::format("{}{:04x}  {}", samples_.empty() ? "" : fmt::format("{:6} ", samples_[n]), i.address,
                      i.text()),
          i.line == 0 ? "" : fmt::format("{:4} {}", i.line, same ? "" : ptx_text(static_cast<int>(i.line))),
          margin(source(i)));
    }
    return text;
  }

  std::string ptx_listing() {
    std::string text = row("PTX", "C++", "");
    for (const int line : ptx_operations_)
      text += row(fmt::format("{:4} {}", line, ptx_text(line)), margin(map_.at(line)), "");
    return text;
  }

  const Annotation& what_;
  LineMap map_;
  std::vector<std::string> ptx_lines_;
  Sources sources_;
  std::vector<Product> products_;    // the matrix products in the PTX
  std::vector<int> ptx_operations_;  // the PTX line of each instruction
  std::optional<analysis::SassKernel> sass_;
  std::vector<uint64_t> samples_;  // number of samples of each SASS instruction; empty if there is no profile
  std::map<Key, Cost> costs_;
  SourceLine last_source_;
};

}  // namespace

std::string annotate(const Annotation& what) {
  Annotator annotator(what);
  return what.json ? annotator.json() : annotator.text();
}

void annotate_kernel(const Family& family, const Fields& fields, const ExecuteOptions& options,
                     const AnnotateOptions& more) {
  const Built built = build(family, fields, Compiler(compiler_options(options)), options, false);
  Annotation what = {.kernel = built.compiled.signature.kernel,
                     .ptx = built.compiled.ptx,
                     .cubin = built.compiled.cubin,
                     .nvdisasm = options.nvdisasm,
                     .folder = more.folder,
                     .ncu = more.ncu,
                     .json = options.json};
  std::string missing = what.cubin.empty() ? fmt::format("no cubin: assembler {}", built.assembler) : "";
  if (missing.empty() && options.nvdisasm.empty()) try {
      what.nvdisasm = Nvdisasm().path();
    } catch (const Error& e) {
      missing = e.what();
      what.cubin.clear();
    }
  if (!missing.empty() && !more.ncu.empty()) throw Error("a profile is of SASS: " + missing);
  const std::string text = annotate(what);
  if (!missing.empty()) fmt::print(stderr, "note: PTX alone: {}\n", missing);
  fmt::print("{}", text);
}

}  // namespace ptxbuilder::command
