#include "kernels/export/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/export/words.h"
#include "kernels/family/command_line.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/launch_rule.h"
#include "runtime/driver.h"

namespace ptxbuilder::command {
namespace {

namespace cu = runtime::cu;
using Kind = Parameter::Kind;

class Writer {
 public:
  explicit Writer(const Export& e) : e_(e), parameters_(e.kernels[0].signature.parameters) {
    for (const Parameter& p : parameters_) {
      std::string word = identifier(p.name);
      while (std::find(names_.begin(), names_.end(), word) != names_.end()) word += "_";
      names_.push_back(word);
    }
    for (size_t k = 0; k < e.kernels.size(); ++k) {
      const auto& [signature, image, ptx, condition] = e.kernels[k];
      if (!condition.empty()) conditions_.push_back(rule_of_words(k, condition));
      grids_.push_back(signature.grid ? std::optional(GridRule(signature)) : std::nullopt);
    }
    for (const std::string& axis : e.axes) axes_.emplace_back("axis", axis, parameters_);
    for (const LaunchRule& rule : conditions_) note(rule);
    for (const LaunchRule& rule : axes_) note(rule);
    for (const auto& grid : grids_)
      if (grid)
        for (const LaunchRule& rule : grid->rules()) note(rule);
  }

  std::string header() const {
    const std::string guard = fmt::format("PTXBUILDER_EXPORT_{}_H", e_.name);
    std::string text =
        about() + fmt::format("#ifndef {}\n#define {}\n\n#include <stdint.h>\n\n", guard, guard);
    text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
    for (size_t i = 0; i < parameters_.size(); ++i) text += type_of(i);
    text += fmt::format(
        "/* Queues one launch. It neither waits nor allocates, so it may be called during a capture. Returns "
        "0; or -1 if the\n * launch was refused, or the driver's error; then {}_error() says why. Any thread "
        "may call it at any time.\n * It uses the current context, to which the stream must belong; if there "
        "is none, the stream's context or, for\n * the default stream, the primary context of device 0. "
        "Afterwards the same context is current as before.\n",
        e_.name);
    text += shapes_have_to_agree();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::string& meaning = parameters_[i].meaning;
      text += fmt::format(" *   {}: {}{}{}\n", names_[i], kind_in_comment(parameters_[i]),
                          meaning.empty() ? "" : "; ", in_comment(meaning));
    }
    text += " *   grid: CTAs along x, y and z; NULL for the kernel's rule\n *   stream: a CUstream */\n";
    text += prototype() + ";\n\n";
    text += fmt::format(
        "/* Loads everything that a launch needs now instead of at the first launch. Returns what "
        "{0}_launch() returns. */\nint {0}_load(void);\n\n/* Returns the message of this thread's last call "
        "that failed. It is valid until the next call. */\nconst char* {0}_error(void);\n\n",
        e_.name);
    return text + "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  }

  std::string source() const {
    std::string text =
        about() + fmt::format(
                      "#include \"{0}.h\"\n\n#include <dlfcn.h>\n#include <stdarg.h>\n#include <stdio.h>\n"
                      "#include <stdlib.h>\n#include <string.h>\n\n"
                      "/* Not every kernel uses all of the functions. */\n"
                      "#pragma GCC diagnostic ignored \"-Wunused-function\"\n\n#define EXPORTED \"{0}\"\n"
                      "#define KERNELS {1}\n\n",
                      e_.name, e_.kernels.size());
    text += constants() + exported_driver;
    if (maps()) text += exported_maps;
    text +=
        "\n/* The arithmetic of the rules of grids and conditions. */\n" + LaunchRule::c_functions() + "\n";
    text += images() + tables();
    if (!e_.shapes.empty()) text += exported_nearest;
    return text + exported_launch + launch() + entries();
  }

 private:
  // Parses a condition. Conditions come from the command line, so errors in them are reported as usage
  // errors.
  LaunchRule rule_of_words(size_t k, const std::string& condition) const {
    try {
      return {fmt::format("condition {}", k + 1), condition, parameters_};
    } catch (const Error& e) {
      throw UsageError(e.what());
    }
  }

  // Records the names that a rule uses, each name only once.
  void note(const LaunchRule& rule) {
    for (const RuleName& name : rule.names())
      if (std::none_of(values_.begin(), values_.end(),
                       [&](const RuleName& v) { return v.text == name.text; }))
        values_.push_back(name);
  }
  // Returns a C expression for the rule that uses the variables of launch_on().
  std::string expression(const LaunchRule& rule) const {
    auto variable = [&](size_t i) {
      const auto at = std::find_if(values_.begin(), values_.end(),
                                   [&](const RuleName& v) { return v.text == rule.names()[i].text; });
      return fmt::format("values[{}]", at - values_.begin());
    };
    return rule.as_c(variable, "wrong");
  }

  size_t maps() const {
    return static_cast<size_t>(std::count_if(parameters_.begin(), parameters_.end(),
                                             [](const Parameter& p) { return p.kind == Kind::tensor_map; }));
  }

  std::string about() const {
    std::string text = fmt::format(
        "/* {}: {}\n *\n * Written by ptxb export, only for GPUs of compute capability 9.0. It opens the "
        "driver, libcuda.so.1, by\n * itself: link with -ldl where libc has no dlopen.\n",
        e_.name, in_comment(e_.summary));
    for (const ExportedKernel& k : e_.kernels) {
      const Signature& s = k.signature;
      text += fmt::format(" *\n * Kernel {}", label(k));
      if (!k.condition.empty()) text += fmt::format(", launched if {}", k.condition);
      if (k.condition.empty() && e_.shapes.empty() && e_.kernels.size() > 1) text += ", launched else";
      std::vector<std::string> words = {" *   "};
      for (const auto& [field, value] : s.configuration)
        words.push_back(fmt::format("{}={} ", field, in_comment(value)));
      text += ":\n";
      if (!s.configuration.empty()) text += wrapped(words, " *   ") + "\n";
      text += fmt::format(" *   {} threads per CTA, clusters of {} CTAs, {} B of dynamic shared memory",
                          s.threads, fmt::join(s.cluster, " x "), s.dynamic_shared_bytes);
      if (s.registers) text += fmt::format(", {} registers a thread", *s.registers);
      text += s.overlaps ? "\n *   launched as a programmatic dependent launch\n" : "\n";
      if (s.cooperative)
        text +=
            " *   launched cooperatively, since its CTAs wait for each other: a grid that does not fit at "
            "once fails\n";
      text += s.grid ? fmt::format(" *   grid: {}\n", fmt::join(*s.grid, " x "))
                     : " *   it has no rule for its grid, so every launch must pass one\n";
    }
    if (e_.shapes.empty()) return text + " */\n";
    text += fmt::format(" *\n * A launch uses the kernel of the nearest {}:\n", fmt::join(e_.axes, " x "));
    for (const ExportedShape& s : e_.shapes)
      text += fmt::format(" *   {}: {}{}{}\n", fmt::join(s.size, " x "), label(e_.kernels[s.kernel]),
                          s.caution.empty() ? "" : "; ", s.caution);
    return text + " */\n";
  }
  // Returns the kernel's name, followed by the kernel's number if another kernel has the same name.
  std::string label(const ExportedKernel& kernel) const {
    const std::string& name = kernel.signature.kernel;
    const auto same = std::count_if(e_.kernels.begin(), e_.kernels.end(), [&](const ExportedKernel& other) {
      return other.signature.kernel == name;
    });
    return same == 1 ? name : fmt::format("{} ({})", name, &kernel - e_.kernels.data() + 1);
  }

  std::string shapes_have_to_agree() const {
    if (maps() == 0 || parameters_.size() == 1) return "";
    return " * A kernel does not see the shape of a tensor, but copies end there, so shapes must agree with "
           "each other\n * and with the numbers, as described here:\n";
  }

  // Returns the definition of the C type for a parameter; "" if the parameter does not need a separate type.
  std::string type_of(size_t i) const {
    const Parameter& p = parameters_[i];
    if (p.kind == Kind::structure) {
      std::string text = fmt::format("typedef struct {}_{}_struct {{\n", e_.name, names_[i]);
      for (const Parameter& field : p.fields)
        text += fmt::format("  {}{}; /* {} */\n", declared(field), identifier(field.name),
                            kind_in_comment(field));
      return text + fmt::format("}} {}_{}_struct;\n\n", e_.name, names_[i]);
    }
    if (p.kind != Kind::tensor_map) return "";
    return tensor_type(p, fmt::format("{}_{}_tensor", e_.name, names_[i]), alignment_of(i));
  }

  // Returns the alignment, in bytes, that the kernels require of a tensor's address and strides.
  int alignment_of(size_t i) const {
    const bool wide = std::any_of(e_.kernels.begin(), e_.kernels.end(), [&](const ExportedKernel& k) {
      return k.signature.parameters[i].tensor_map.interleave == Interleave::b32;
    });
    return wide ? 2 * hopper::bulk_unit : hopper::bulk_unit;
  }

  // Returns the C type of a tensor. Its comments state the rules of cuTensorMapEncodeTiled, which the caller
  // must follow.
  static std::string tensor_type(const Parameter& p, const std::string& type, int alignment) {
    const int rank = p.tensor_map.rank(), bytes = size_of(p.dtype);
    std::string text =
        fmt::format("typedef struct {} {{\n  void* data; /* {} on the device, at a multiple of {} B */\n",
                    type, name(p.dtype), alignment);
    text += fmt::format("  uint64_t shape[{}]; /* elements, innermost dimension first{} */\n", rank,
                        rank == 2 ? ": {C, R} for R rows of C" : "");
    const std::string from =
        rank == 2 ? std::string("a row to the next: a multiple")
                  : fmt::format("an element to the next of dimensions 1 to {}: multiples", rank - 1);
    if (rank > 1)
      text += fmt::format(
          "  /* Bytes from {} of {}, and at least shape[0] * {}.\n   * Rows are contiguous only if shape[0] "
          "is a multiple of {}. */\n  uint64_t stride_bytes[{}];\n",
          from, alignment, bytes, alignment / bytes, rank - 1);
    return text + fmt::format("}} {};\n\n", type);
  }

  std::string parameter(size_t i) const {
    const Kind kind = parameters_[i].kind;
    if (kind == Kind::scalar || kind == Kind::pointer) return declared(parameters_[i]) + names_[i];
    return fmt::format("const {0}_{1}_{2}* {1}", e_.name, names_[i],
                       kind == Kind::tensor_map ? "tensor" : "struct");
  }
  std::string prototype() const {
    std::vector<std::string> words = {fmt::format("int {}_launch(", e_.name)};
    for (size_t i = 0; i < parameters_.size(); ++i) words.push_back(parameter(i) + ", ");
    words.push_back("const uint32_t grid[3], ");
    words.push_back("void* stream)");
    return wrapped(words, std::string(words[0].size(), ' '));
  }

  static std::string constants() {
    auto number = [](auto value) { return static_cast<int>(value); };
    const std::pair<const char*, int64_t> all[] = {
        {"REFUSED", -1},
        {"NOT_INITIALIZED", number(cu::Status::not_initialized)},
        {"NO_BINARY_FOR_GPU", number(cu::Status::no_binary_for_gpu)},
        {"MULTIPROCESSOR_COUNT", number(cu::DeviceAttribute::multiprocessor_count)},
        {"COMPUTE_CAPABILITY_MAJOR", number(cu::DeviceAttribute::compute_capability_major)},
        {"COMPUTE_CAPABILITY_MINOR", number(cu::DeviceAttribute::compute_capability_minor)},
        {"MAX_DYNAMIC_SHARED_BYTES", number(cu::FunctionAttribute::max_dynamic_shared_size_bytes)},
        {"NON_PORTABLE_CLUSTER", number(cu::FunctionAttribute::non_portable_cluster_size_allowed)},
        {"RELAXED_CAPTURE", number(cu::CaptureMode::relaxed)},
        {"CLUSTER_DIMENSION", number(cu::LaunchAttributeId::cluster_dimension)},
        {"PROGRAMMATIC_STREAM_SERIALIZATION",
         number(cu::LaunchAttributeId::programmatic_stream_serialization)},
        {"COOPERATIVE", number(cu::LaunchAttributeId::cooperative)},
        {"PORTABLE_CLUSTER", hopper::portable_cluster},
        {"GRID_X", hopper::grid_x},
        {"GRID_YZ", hopper::grid_yz}};
    std::string text = "/* The values of the driver's enumerations, and of the hardware. */\nenum {\n";
    for (const auto& [word, value] : all)
      text += fmt::format("  {} = {}{}\n", word, value, &word == &std::end(all)[-1].first ? "" : ",");
    return text + "};\n";
  }

  std::string images() const {
    std::string text;
    for (size_t k = 0; k < e_.kernels.size(); ++k) {
      text += bytes_in_c(fmt::format("image_{}", k), e_.kernels[k].image);
      if (!e_.kernels[k].ptx.empty()) text += bytes_in_c(fmt::format("ptx_{}", k), e_.kernels[k].ptx);
    }
    return text;
  }
  static std::string bytes_in_c(const std::string& name, const std::string& bytes) {
    std::string text = fmt::format("static const unsigned char {}[{}] __attribute__((aligned(64))) = {{",
                                   name, bytes.size() + 1);
    for (size_t i = 0; i < bytes.size(); ++i)
      text += fmt::format("{}{},", i % 32 ? "" : "\n    ", static_cast<unsigned char>(bytes[i]));
    return text + "0};\n\n";  // PTX text must end with a zero
  }

  std::string tables() const {
    std::string text = "static const struct kernel kernels[KERNELS] = {\n";
    for (size_t k = 0; k < e_.kernels.size(); ++k) {
      const Signature& s = e_.kernels[k].signature;
      const std::string ptx = e_.kernels[k].ptx.empty() ? "NULL" : fmt::format("ptx_{}", k);
      text += fmt::format("    {{{}, image_{}, {}, {{{}}}, {}, {{{}}}, {}, {}}},\n", c_string(s.kernel), k,
                          ptx, fmt::join(s.block(), ", "), s.dynamic_shared_bytes, fmt::join(s.cluster, ", "),
                          s.overlaps ? 1 : 0, s.cooperative ? 1 : 0);
    }
    text += "};\n\n";
    if (maps()) {
      text += fmt::format("static const struct recipe recipes[KERNELS][{}] = {{\n", maps());
      for (const ExportedKernel& k : e_.kernels) {
        std::vector<std::string> list;
        for (const Parameter& p : k.signature.parameters)
          if (p.kind == Kind::tensor_map) list.push_back(recipe(p));
        text += fmt::format("    {{{}}},\n", fmt::join(list, ",\n     "));
      }
      text += "};\n\n";
    }
    if (e_.shapes.empty()) return text;
    text += fmt::format("#define AXES {}\n/* {}, and the kernel of that size. */\n", e_.axes.size(),
                        fmt::join(e_.axes, " x "));
    text += "static const struct {\n  uint64_t size[AXES];\n  size_t kernel;\n} shapes[] = {\n";
    for (const ExportedShape& s : e_.shapes)
      text += fmt::format("    {{{{{}}}, {}}},\n", fmt::join(s.size, ", "), s.kernel);
    return text + "};\n";
  }
  static std::string recipe(const Parameter& p) {
    const TensorMapRecipe& r = p.tensor_map;
    auto five = [](std::vector<uint32_t> list) {
      list.resize(5, 1);
      return fmt::format("{{{}}}", fmt::join(list, ", "));
    };
    return fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}}", c_string(p.name),
                       static_cast<int>(cu::data_type(p.dtype)), size_of(p.dtype), r.rank(), five(r.box),
                       five(r.element_strides), static_cast<int>(r.interleave), static_cast<int>(r.swizzle),
                       static_cast<int>(r.l2_promotion), static_cast<int>(r.oob_fill));
  }

  // Returns the C function launch_on(), which launches a kernel in the current context.
  std::string launch() const {
    std::string text = "\nstruct arguments {\n";
    for (size_t i = 0; i < parameters_.size(); ++i) text += fmt::format("  {};\n", parameter(i));
    text += "  const uint32_t* grid;\n  void* stream;\n};\n";
    if (!values_.empty()) text += rule_refused();
    text += "\nstatic int launch_on(const struct driver* d, const struct arguments* a, int device) {\n";
    text += "  int64_t grid[3];\n  size_t kernel;\n  int status = 0, i;\n";
    text += "  const char* wrong = NULL; /* with the rules */\n";
    if (!values_.empty()) text += fmt::format("  int64_t values[{}];\n", values_.size());
    if (maps()) text += fmt::format("  struct map maps[{}];\n", maps());
    text += copies() + "  (void)wrong;\n" + checks() + values() + choice() + grid() + encoding();
    return text +
           "  if (!status) status = queue(d, kernel, grid, device, a->stream, parameters);\n"
           "  return status;\n}\n";
  }

  // Returns C code for the error if a rule does not hold. The error lists the values that the rule names,
  // such as "count = 7, M = 3".
  std::string rule_refused() const {
    std::vector<std::string> format, list;
    for (size_t i = 0; i < values_.size(); ++i) {
      format.push_back(values_[i].text + " = %lld");
      list.push_back(fmt::format("(long long)values[{}]", i));
    }
    return fmt::format(
        "\nstatic int rule_refused(const char* rule, const char* wrong, const int64_t* values) {{\n"
        "  char text[512];\n  snprintf(text, sizeof text, {},\n           {});\n"
        "  return fail(REFUSED, \"%s: %s, with %s\", rule, wrong, text);\n}}\n",
        c_string(fmt::format("{}", fmt::join(format, ", "))), fmt::join(list, ", "));
  }

  // Returns C code that collects the addresses of the parameters' values. Scalars are copied, because the
  // driver's pointers are not const.
  std::string copies() const {
    std::string text;
    std::vector<std::string> list;
    size_t map = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Kind kind = parameters_[i].kind;
      list.push_back(kind == Kind::tensor_map ? fmt::format("&maps[{}]", map++)
                                              : fmt::format("&value_{}", i));
      if (kind == Kind::structure) text += fmt::format("  {}_{}_struct value_{};\n", e_.name, names_[i], i);
      if (kind == Kind::scalar || kind == Kind::pointer)
        text += fmt::format("  {}value_{} = a->{};\n", declared(parameters_[i]), i, names_[i]);
    }
    if (list.empty()) list.push_back("NULL");
    return text + fmt::format("  void* parameters[] = {{{}}};\n", fmt::join(list, ", "));
  }

  std::string checks() const {
    std::string text;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Kind kind = parameters_[i].kind;
      if (kind == Kind::scalar || kind == Kind::pointer) continue;
      text += fmt::format("  if (!a->{}) return fail(REFUSED, \"parameter '{}' is NULL\");\n", names_[i],
                          parameters_[i].name);
      if (kind == Kind::structure) text += fmt::format("  value_{} = *a->{};\n", i, names_[i]);
    }
    return text;
  }

  std::string values() const {
    std::string text;
    for (size_t i = 0; i < values_.size(); ++i) {
      const RuleName& v = values_[i];
      if (v.kind == RuleName::Kind::multiprocessors) {
        text += fmt::format(
            "  status = d->device_attribute(&i, MULTIPROCESSOR_COUNT, device);\n"
            "  if (status) return driver_failed(d, status, \"cuDeviceGetAttribute\", \"the current "
            "device\");\n"
            "  values[{}] = i;\n",
            i);
        continue;
      }
      const bool is_extent = v.kind == RuleName::Kind::extent;
      std::string value = "a->" + names_[v.parameter];
      if (is_extent) value += fmt::format("->shape[{}]", v.dimension);
      const bool may_not_fit = is_extent || v.dtype == DType::u64;
      text += may_not_fit ? fmt::format("  values[{}] = rule_unsigned(&wrong, {});\n", i, value)
                          : fmt::format("  values[{}] = (int64_t){};\n", i, value);
    }
    if (!text.empty())
      text += "  if (wrong) return rule_refused(\"an argument that a rule names\", wrong, values);\n";
    return text;
  }

  // Returns the C code that sets `kernel`.
  std::string choice() const {
    if (!e_.shapes.empty()) {
      std::vector<std::string> list;
      for (const LaunchRule& axis : axes_) list.push_back(expression(axis));
      return fmt::format("  {{\n    const int64_t size[AXES] = {{{}}};\n    kernel = nearest(size);\n  }}\n",
                         fmt::join(list, ", "));
    }
    if (conditions_.empty()) return "  kernel = 0;\n";
    std::string text = "  ";
    for (size_t k = 0; k < conditions_.size(); ++k)
      text += fmt::format("if ({} != 0)\n    kernel = {};\n  else ", expression(conditions_[k]), k);
    text += fmt::format("\n    kernel = {};\n", conditions_.size());
    if (!values_.empty()) text += "  if (wrong) return rule_refused(\"a condition\", wrong, values);\n";
    return text;
  }

  // Returns the C code that sets `grid`.
  std::string grid() const {
    std::string text =
        "  if (a->grid) {\n    for (i = 0; i < 3; ++i) grid[i] = a->grid[i];\n  } else {\n"
        "    switch (kernel) {\n";
    for (size_t k = 0; k < grids_.size(); ++k) {
      text += fmt::format("      {}:\n", k + 1 < grids_.size() ? fmt::format("case {}", k) : "default");
      text += grids_[k] ? by_rule(*grids_[k])
                        : fmt::format(
                              "        return fail(REFUSED, \"kernel '%s' has no rule for its grid: give "
                              "one\", kernels[{}].name);\n",
                              k);
    }
    return text + "    }\n  }\n";
  }
  std::string by_rule(const GridRule& rule) const {
    std::string text;
    std::vector<std::string> rules;
    for (size_t i = 0; i < 3; ++i) {
      text += fmt::format("        grid[{}] = {};\n", i, expression(rule.rules()[i]));
      rules.push_back(rule.rules()[i].text());
    }
    if (!values_.empty())
      text += fmt::format(
          "        for (i = 0; i < 3 && !wrong; ++i)\n"
          "          if (grid[i] < 1) wrong = \"less than one CTA\";\n"
          "        if (wrong) return rule_refused({}, wrong, values);\n",
          c_string(fmt::format("the grid {}", fmt::join(rules, " x "))));
    return text + "        break;\n";
  }

  std::string encoding() const {
    std::string text;
    size_t map = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i].kind != Kind::tensor_map) continue;
      // The driver requires an address for the strides even if it reads no strides.
      text += fmt::format(
          "  if (!status)\n"
          "    status = encode(d, &recipes[kernel][{0}], a->{1}->data, a->{1}->shape, a->{1}->{2}, "
          "&maps[{0}]);\n",
          map++, names_[i], parameters_[i].tensor_map.rank() > 1 ? "stride_bytes" : "shape");
    }
    return text;
  }

  std::string entries() const {
    std::string list;
    for (const std::string& word : names_) list += word + ", ";
    return fmt::format(
        R"(
static int launch_all(const struct arguments* a) {{
  const struct driver* d;
  int entered = 0, device = 0, status = find_driver(&d);
  if (!status) status = enter(d, a->stream, &entered, &device);
  if (status) return status;
  status = launch_on(d, a, device);
  if (entered) d->set_current(NULL);
  return status;
}}

{0} {{
  const struct arguments all = {{{1}grid, stream}};
  return launch_all(&all);
}}

int {2}_load(void) {{
  const struct driver* d;
  void* kernel;
  size_t i;
  int entered = 0, device = 0, status = find_driver(&d);
  if (!status) status = enter(d, NULL, &entered, &device);
  if (status) return status;
  for (i = 0; i < KERNELS && !status; ++i)
    status = prepare(d, &kernels[i], &published[i], &ready[i], device, &kernel);
  if (entered) d->set_current(NULL);
  return status;
}}

const char* {2}_error(void) {{ return error_text; }}
)",
        prototype(), list, e_.name);
  }

  const Export& e_;
  const std::vector<Parameter>& parameters_;
  std::vector<std::string> names_;  // names of the parameters in C
  std::vector<LaunchRule> conditions_, axes_;
  std::vector<std::optional<GridRule>> grids_;  // one for each kernel
  std::vector<RuleName> values_;
};

}  // namespace

ExportedFiles export_to_c(const Export& e) {
  check(e);
  const Writer writer(e);
  return {writer.header(), writer.source()};
}

}  // namespace ptxbuilder::command
