#include "kernels/family/kernel_command.h"

#include <algorithm>
#include <map>
#include <memory>

#include "kernels/family/field_options.h"

namespace ptxbuilder::command {

void add_kernel_command(std::vector<Command>& commands, const Arguments& top, const std::string& name,
                        const std::string& help,
                        const std::function<void(const Arguments&, const Family&)>& add_options,
                        std::function<int(const ChosenKernel&)> run) {
  const Arguments app = top.command(name, help);
  app.needs_command();
  const std::vector<Command> own = add_commands(app, name);
  commands.insert(commands.end(), own.begin(), own.end());
  const auto values = std::make_shared<std::map<std::string, int64_t>>();
  for (const Family& f : families()) {
    if (std::any_of(own.begin(), own.end(), [&](const Command& c) { return c.arguments.name() == f.name; }))
      continue;
    const Arguments kernel = app.command(f.name, f.summary);
    kernel.when_named([kernel, &f, values, add_options] {
      add_fields(kernel, f, *values);
      add_options(kernel, f);
    });
  }
  commands.push_back({app,
                      [app, values, run = std::move(run)] {
                        const Arguments kernel = app.chosen_command();
                        const Family& chosen = family(kernel.name());
                        const Fields fields = chosen_fields(kernel, chosen, *values);
                        return run({chosen, fields, given_fields(kernel, chosen)});
                      },
                      true});
}

}  // namespace ptxbuilder::command
