#include "ptxbuilder/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ptxbuilder/error.h"
#include "ptxbuilder/json_text.h"

namespace ptxbuilder {
namespace {

using Json = nlohmann::ordered_json;

// The numbers of the sidecar's formats. The number is increased if a reader of an older format would misread
// the new format. The second format is written only if CTAs have threads along y or z.
constexpr int kFormat = 1, kFormatOfBlocks = 2;

constexpr std::array<std::string_view, 3> kInterleaves = {"none", "16", "32"};
constexpr std::array<std::string_view, 4> kSwizzles = {"none", "32", "64", "128"};
constexpr std::array<std::string_view, 4> kPromotions = {"none", "64", "128", "256"};
constexpr std::array<std::string_view, 2> kFills = {"zero", "nan"};
constexpr std::array<std::string_view, 5> kKinds = {"scalar", "pointer", "tensor_map", "struct",
                                                    "tensor_map_array"};

int rounded_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

Json write(const Parameter& p) {
  Json json = {{"name", p.name}, {"kind", kKinds[static_cast<size_t>(p.kind)]}};
  if (!p.meaning.empty()) json["meaning"] = p.meaning;
  if (p.kind == Parameter::Kind::structure) {
    json["bytes"] = p.size_bytes();
    json["fields"] = Json::array();
    const std::vector<int> offsets = p.field_offsets();
    for (size_t i = 0; i < offsets.size(); ++i) {
      json["fields"].push_back(write(p.fields[i]));
      json["fields"].back()["offset"] = offsets[i];
    }
    return json;
  }
  json["dtype"] = name(p.dtype);
  if (p.has_recipe()) {
    const TensorMapRecipe& map = p.tensor_map;
    json["box"] = map.box;
    json["element_strides"] = map.element_strides;
    json["interleave"] = name(map.interleave);
    json["swizzle"] = name(map.swizzle);
    json["l2_promotion"] = name(map.l2_promotion);
    json["oob_fill"] = name(map.oob_fill);
    if (map.pixels != 0) json["pixels"] = map.pixels;
  }
  return json;
}

// Reads members of a JSON object. Errors name the file and the member.
class Reader {
 public:
  Reader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json.is_object()) throw Error(fmt::format("{}: expected an object, found {}", path_, json.dump()));
  }

  template <class T>
  T get(const char* member) const {
    const Json& value = at(member);
    try {
      return value.get<T>();
    } catch (const Json::exception&) {
      throw Error(fmt::format("{}.{}: the value {} has the wrong type", path_, member, value.dump()));
    }
  }

  template <class T>
  T get_unsigned(const char* member) const {
    const Json& value = at(member);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > std::numeric_limits<T>::max())
      throw Error(fmt::format("{}.{}: expected an unsigned {}-bit number, found {}", path_, member,
                              8 * sizeof(T), value.dump()));
    return value.get<T>();
  }

  template <class T>
  std::optional<T> get_optional_unsigned(const char* member) const {
    if (!json_.contains(member) || json_.at(member).is_null()) return std::nullopt;
    return get_unsigned<T>(member);
  }

  template <class Enum, size_t n>
  Enum get_enum(const char* member, const std::array<std::string_view, n>& names) const {
    auto text = get<std::string>(member);
    for (size_t i = 0; i < n; ++i)
      if (names[i] == text) return static_cast<Enum>(i);
    throw Error(fmt::format("{}.{}: '{}' is not one of {}", path_, member, text,
                            fmt::join(names.begin(), names.end(), ", ")));
  }

  std::vector<uint32_t> get_unsigned_list(const char* member, size_t least, size_t most) const {
    const Json& value = at(member);
    bool good = value.is_array() && value.size() >= least && value.size() <= most;
    if (good)
      for (const Json& item : value)
        good =
            good && item.is_number_unsigned() && item.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
    if (!good)
      throw Error(fmt::format("{}.{}: expected {} to {} unsigned 32-bit numbers, found {}", path_, member,
                              least, most, value.dump()));
    return value.get<std::vector<uint32_t>>();
  }

  DType get_dtype(const char* member) const {
    auto text = get<std::string>(member);
    if (auto type = dtype_from_name(text)) return *type;
    throw Error(fmt::format("{}.{}: '{}' is not an element type", path_, member, text));
  }

  const Json& at(const char* member) const {
    if (!json_.contains(member)) throw Error(fmt::format("{}: the member '{}' is missing", path_, member));
    return json_.at(member);
  }

 private:
  const Json& json_;
  std::string path_;
};

Parameter read_parameter(const Json& json, const std::string& path);

// Reads the fields of a structure. Offsets are in the file for other readers; this function computes them
// from the types.
void read_fields(const Reader& in, const std::string& path, Parameter& p) {
  const Json& list = in.at("fields");
  if (!list.is_array() || list.empty())
    throw Error(fmt::format("{}.fields: expected a list of at least one field, found {}", path, list.dump()));
  auto member = [&](size_t i) { return fmt::format("{}.fields[{}]", path, i); };
  for (size_t i = 0; i < list.size(); ++i) p.fields.push_back(read_parameter(list[i], member(i)));
  const std::vector<int> offsets = p.field_offsets();
  for (size_t i = 0; i < list.size(); ++i) {
    const auto offset = Reader(list[i], member(i)).get_unsigned<uint32_t>("offset");
    if (offset != static_cast<uint32_t>(offsets[i]))
      throw Error(
          fmt::format("{}.offset: {}, but in C the field is at byte {}", member(i), offset, offsets[i]));
  }
  const auto bytes = in.get_unsigned<uint32_t>("bytes");
  if (bytes != static_cast<uint32_t>(p.size_bytes()))
    throw Error(fmt::format("{}.bytes: {}, but in C the struct has {}", path, bytes, p.size_bytes()));
}

Parameter read_parameter(const Json& json, const std::string& path) {
  Reader in(json, path);
  Parameter p;
  p.name = in.get<std::string>("name");
  p.kind = in.get_enum<Parameter::Kind>("kind", kKinds);
  if (json.contains("meaning")) p.meaning = in.get<std::string>("meaning");
  if (p.kind == Parameter::Kind::structure) {
    read_fields(in, path, p);
    return p;
  }
  p.dtype = in.get_dtype("dtype");
  if (p.has_recipe()) {
    p.tensor_map.dtype = p.dtype;
    p.tensor_map.box = in.get_unsigned_list("box", 1, 5);
    p.tensor_map.element_strides =
        in.get_unsigned_list("element_strides", p.tensor_map.box.size(), p.tensor_map.box.size());
    p.tensor_map.interleave = in.get_enum<Interleave>("interleave", kInterleaves);
    p.tensor_map.swizzle = in.get_enum<Swizzle>("swizzle", kSwizzles);
    p.tensor_map.l2_promotion = in.get_enum<L2Promotion>("l2_promotion", kPromotions);
    p.tensor_map.oob_fill = in.get_enum<OobFill>("oob_fill", kFills);
    p.tensor_map.pixels = in.get_optional_unsigned<uint32_t>("pixels").value_or(0);
  }
  return p;
}

// Each of the following functions returns nullopt if its member is missing.

std::optional<std::array<std::string, 3>> read_grid(const Json& json, const std::string& file_name) {
  if (!json.contains("grid")) return std::nullopt;
  const Json& list = json.at("grid");
  const bool good = list.is_array() && list.size() == 3 &&
                    std::all_of(list.begin(), list.end(), [](const Json& rule) { return rule.is_string(); });
  if (!good) throw Error(fmt::format("{}.grid: expected 3 rules, found {}", file_name, list.dump()));
  return list.get<std::array<std::string, 3>>();
}

std::vector<std::pair<std::string, std::string>> read_configuration(const Json& json,
                                                                    const std::string& file_name) {
  std::vector<std::pair<std::string, std::string>> all;
  if (!json.contains("configuration")) return all;
  const Reader in(json.at("configuration"), file_name + ".configuration");
  for (const auto& [name, value] : json.at("configuration").items())
    all.emplace_back(name, in.get<std::string>(name.c_str()));
  return all;
}

constexpr std::array<std::string_view, 7> kSites = {"mbarrier", "barrier", "cluster", "counter",
                                                    "check",    "print",   "tile"};

Json write_roles(const std::vector<ProfileFormat::Role>& roles) {
  Json json = Json::array();
  for (const ProfileFormat::Role& role : roles)
    json.push_back({{"name", role.name}, {"first_warp", role.first_warp}, {"warps", role.warps}});
  return json;
}

std::vector<ProfileFormat::Role> read_roles(const Reader& in, const std::string& path) {
  std::vector<ProfileFormat::Role> all;
  const Json& roles = in.at("roles");
  if (!roles.is_array()) throw Error(fmt::format("{}.roles: expected a list", path));
  for (size_t i = 0; i < roles.size(); ++i) {
    const Reader role(roles[i], fmt::format("{}.roles[{}]", path, i));
    all.push_back({role.get<std::string>("name"), role.get_unsigned<uint32_t>("first_warp"),
                   role.get_unsigned<uint32_t>("warps")});
  }
  return all;
}

constexpr std::array<std::string_view, 7> kEvents = {"begin",    "end",      "span_begin", "span_end",
                                                     "mark_u32", "mark_s32", "mark_f32"};

Json write(const ProfileFormat& profile) {
  Json sites = Json::array();
  for (const ProfileFormat::Site& site : profile.sites) {
    Json events = Json::array();
    for (const ProfileFormat::Event& e : site) {
      events.push_back(
          {{"kind", kEvents[static_cast<size_t>(e.kind)]}, {"name", e.name}, {"clock", e.clock}});
      if (ProfileFormat::has_value(e.kind)) events.back()["value"] = e.value;
    }
    sites.push_back(std::move(events));
  }
  return {{"records", profile.records},
          {"names", profile.names},
          {"roles", write_roles(profile.roles)},
          {"sites", sites}};
}

ProfileFormat::Event read_event(const Json& json, const std::string& path, size_t names) {
  const Reader in(json, path);
  ProfileFormat::Event event{in.get_enum<ProfileFormat::Kind>("kind", kEvents),
                             in.get_unsigned<uint32_t>("name"), in.get_unsigned<uint32_t>("clock")};
  if (ProfileFormat::has_value(event.kind)) event.value = in.get_unsigned<uint32_t>("value");
  if (event.name >= names ||
      (event.clock >= profile_format::kMostWords && event.clock != ProfileFormat::kBefore) ||
      event.value >= profile_format::kMostWords)
    throw Error(
        fmt::format("{}: name {}, clock {} and value {}, but there are {} names and a record has {} words",
                    path, event.name, event.clock, event.value, names, profile_format::kMostWords));
  return event;
}

std::optional<ProfileFormat> read_profile(const Json& json, const std::string& file_name) {
  if (!json.contains("profile")) return std::nullopt;
  const std::string path = file_name + ".profile";
  const Reader in(json.at("profile"), path);
  ProfileFormat profile;
  profile.records = in.get_unsigned<uint32_t>("records");
  profile.names = in.get<std::vector<std::string>>("names");
  profile.roles = read_roles(in, path);
  const Json& sites = in.at("sites");
  if (!sites.is_array()) throw Error(fmt::format("{}.sites: expected a list", path));
  for (size_t i = 0; i < sites.size(); ++i) {
    if (!sites[i].is_array()) throw Error(fmt::format("{}.sites[{}]: expected a list", path, i));
    ProfileFormat::Site& site = profile.sites.emplace_back();
    for (size_t e = 0; e < sites[i].size(); ++e)
      site.push_back(
          read_event(sites[i][e], fmt::format("{}.sites[{}][{}]", path, i, e), profile.names.size()));
  }
  return profile;
}

std::optional<ReportFormat> read_report(const Json& json, const std::string& file_name) {
  if (!json.contains("report")) return std::nullopt;
  const std::string path = file_name + ".report";
  const Reader in(json.at("report"), path);
  ReportFormat report;
  report.watchdog_milliseconds = in.get_unsigned<uint32_t>("watchdog_milliseconds");
  report.messages = in.get_unsigned<uint32_t>("messages");
  report.roles = read_roles(in, path);
  const Json& sites = in.at("sites");
  if (!sites.is_array()) throw Error(fmt::format("{}.sites: expected a list", path));
  for (size_t i = 0; i < sites.size(); ++i) {
    const Reader site(sites[i], fmt::format("{}.sites[{}]", path, i));
    report.sites.push_back({site.get_enum<ReportFormat::Site::Kind>("kind", kSites),
                            site.get<std::string>("line"), site.get<std::string>("text"),
                            site.get<std::string>("types")});
  }
  return report;
}

Json write(const ReportFormat& report) {
  Json sites = Json::array();
  for (const ReportFormat::Site& site : report.sites)
    sites.push_back({{"kind", kSites[static_cast<size_t>(site.kind)]},
                     {"line", site.line},
                     {"text", site.text},
                     {"types", site.types}});
  return {{"watchdog_milliseconds", report.watchdog_milliseconds},
          {"messages", report.messages},
          {"roles", write_roles(report.roles)},
          {"sites", sites}};
}

std::vector<SharedObject> read_shared(const Json& json, const std::string& file_name) {
  std::vector<SharedObject> objects;
  if (!json.contains("shared")) return objects;
  const Json& list = json.at("shared");
  if (!list.is_array()) throw Error(fmt::format("{}.shared: expected a list", file_name));
  for (size_t i = 0; i < list.size(); ++i) {
    Reader in(list[i], fmt::format("{}.shared[{}]", file_name, i));
    SharedObject o;
    o.name = in.get<std::string>("name");
    o.offset = in.get_unsigned<uint32_t>("offset");
    o.bytes = in.get_unsigned<uint32_t>("bytes");
    o.stages = in.get_unsigned<uint32_t>("stages");
    objects.push_back(std::move(o));
  }
  return objects;
}

}  // namespace

std::string_view name(Interleave value) { return kInterleaves[static_cast<size_t>(value)]; }
std::string_view name(Swizzle value) { return kSwizzles[static_cast<size_t>(value)]; }
std::string_view name(L2Promotion value) { return kPromotions[static_cast<size_t>(value)]; }
std::string_view name(OobFill value) { return kFills[static_cast<size_t>(value)]; }

int Parameter::size_bytes() const {
  switch (kind) {
    case Kind::scalar:
      return size_of(dtype);
    case Kind::pointer:
    case Kind::tensor_map_array:
      return 8;
    case Kind::tensor_map:
      return 128;
    case Kind::structure:
      return rounded_up(fields.empty() ? 0 : field_offsets().back() + fields.back().size_bytes(),
                        alignment());
  }
  return 0;
}

int Parameter::alignment() const {
  if (kind == Kind::tensor_map) return 64;  // alignment of a CUtensorMap
  if (kind != Kind::structure) return size_bytes();
  int most = 1;
  for (const Parameter& field : fields) most = std::max(most, field.alignment());
  return most;
}

std::vector<int> Parameter::field_offsets() const {
  std::vector<int> offsets;
  int end = 0;
  for (const Parameter& field : fields) {
    offsets.push_back(rounded_up(end, field.alignment()));
    end = offsets.back() + field.size_bytes();
  }
  return offsets;
}

std::string to_json(const Signature& s) {
  Json parameters = Json::array();
  for (const Parameter& p : s.parameters) parameters.push_back(write(p));
  const bool is_of_blocks = s.threads_y != 1 || s.threads_z != 1;
  Json json = {{"format", is_of_blocks ? kFormatOfBlocks : kFormat},
               {"kernel", s.kernel},
               {"target", s.target},
               {"ptx_version", s.ptx_version},
               {"threads", s.threads},
               {"cluster", s.cluster},
               {"static_shared_bytes", s.static_shared_bytes},
               {"dynamic_shared_bytes", s.dynamic_shared_bytes},
               {"parameters", parameters}};
  if (is_of_blocks) json["block"] = s.block();
  if (!s.shared.empty()) json["shared"] = Json::array();
  for (const SharedObject& o : s.shared)
    json["shared"].push_back(
        {{"name", o.name}, {"offset", o.offset}, {"bytes", o.bytes}, {"stages", o.stages}});
  if (s.grid) json["grid"] = *s.grid;
  for (const auto& [name, value] : s.configuration) json["configuration"][name] = value;
  if (s.overlaps) json["overlaps"] = true;
  if (s.cooperative) json["cooperative"] = true;
  if (s.profile) json["profile"] = write(*s.profile);
  if (s.report) json["report"] = write(*s.report);
  if (s.registers) json["registers"] = *s.registers;
  if (s.spill_bytes) json["spill_bytes"] = *s.spill_bytes;
  if (s.stack_bytes) json["stack_bytes"] = *s.stack_bytes;
  return json.dump(2) + "\n";
}

Signature signature_from_json(const std::string& text, const std::string& file_name) {
  const Json json = parse_json(text, file_name);
  Reader in(json, file_name);
  if (auto format = in.get_unsigned<uint32_t>("format"); format != kFormat && format != kFormatOfBlocks)
    throw Error(fmt::format("{}: sidecar format {} is unknown; this runtime reads formats {} and {}",
                            file_name, format, kFormat, kFormatOfBlocks));
  Signature s;
  s.kernel = in.get<std::string>("kernel");
  s.target = in.get<std::string>("target");
  s.ptx_version = static_cast<int>(in.get_unsigned<uint16_t>("ptx_version"));
  s.threads = in.get_unsigned<uint32_t>("threads");
  if (json.contains("block")) {
    const std::vector<uint32_t> block = in.get_unsigned_list("block", 3, 3);
    const bool has_none = block[0] == 0 || block[1] == 0 || block[2] == 0;
    if (has_none || s.threads % block[2] != 0 || uint64_t{block[0]} * block[1] != s.threads / block[2])
      throw Error(fmt::format("{}.block: {} does not have {} threads, as `threads` states", file_name,
                              fmt::join(block, " x "), s.threads));
    s.threads_y = block[1], s.threads_z = block[2];
  }
  auto cluster = in.get_unsigned_list("cluster", 3, 3);
  std::copy(cluster.begin(), cluster.end(), s.cluster.begin());
  s.static_shared_bytes = in.get_unsigned<uint32_t>("static_shared_bytes");
  s.dynamic_shared_bytes = in.get_unsigned<uint32_t>("dynamic_shared_bytes");
  const Json& parameters = in.at("parameters");
  if (!parameters.is_array()) throw Error(fmt::format("{}.parameters: expected a list", file_name));
  for (size_t i = 0; i < parameters.size(); ++i)
    s.parameters.push_back(read_parameter(parameters[i], fmt::format("{}.parameters[{}]", file_name, i)));
  s.shared = read_shared(json, file_name);
  s.grid = read_grid(json, file_name);
  s.configuration = read_configuration(json, file_name);
  if (json.contains("overlaps")) s.overlaps = in.get<bool>("overlaps");
  if (json.contains("cooperative")) s.cooperative = in.get<bool>("cooperative");
  s.profile = read_profile(json, file_name);
  s.report = read_report(json, file_name);
  s.registers = in.get_optional_unsigned<uint32_t>("registers");
  s.spill_bytes = in.get_optional_unsigned<uint32_t>("spill_bytes");
  s.stack_bytes = in.get_optional_unsigned<uint32_t>("stack_bytes");
  return s;
}

}  // namespace ptxbuilder
