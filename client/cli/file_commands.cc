#include "client/cli/file_commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/inspect.h"
#include "client/cli/suggest.h"
#include "client/cli/table_file.h"
#include "client/cli/text.h"
#include "server/exec/cpu_count.h"
#include "server/exec/worker_pool.h"
#include "server/table/load_table.h"
#include "server/table/quote.h"
#include "server/table/table_options.h"

namespace embedding::cli {
namespace {

using client::kExitDataFile;
using client::kExitOk;
using client::kExitUnexpected;
using client::kExitUsage;

constexpr char kTableHelp[] = R"(
The table file
  PATH[,key=value...] with the options of the server's --table: format=, tensor=, dtype=, dim=, vocab=, ...
  A vocab= path is relative to the table's folder.
)";

constexpr char kExitCodes[] = R"(
Exit codes
  0 done; 1 output could not be written; 2 wrong usage, or a file that exists; 3 the file holds no table, or
  one that cannot become what was asked for; 130 interrupted
)";

class FileCommand {
 public:
  FileCommand(const FileCommandName& name, std::ostream& out, std::ostream& err)
      : name_(name), app_(name.summary, ""), out_(out), err_(err) {
    app_.name(absl::StrCat("embedding-cli ", name.name));
    app_.add_option(is_convert() ? "IN" : "FILE", in_, "The table file: PATH[,key=value...]")->required();
    if (is_convert()) {
      app_.add_option("OUT", path_, "What to write; the extension is the format: .safetensors, .npy or .fbin")
          ->required();
      app_.add_option("--dtype", dtype_,
                      "Elements of OUT; without it those of IN. Narrowing rounds to nearest even; a "
                      "value beyond the range is an error")
          ->check(CLI::IsMember({"F32", "F16", "BF16"}));
      app_.add_flag("--force", force_, "Replace files that exist");
      app_.add_flag("--no-keys", no_keys_, "Leave the keys out, which else go to OUT's name with .vocab.txt");
    } else {
      app_.add_option("--output", output_, "Format of stdout")
          ->check(CLI::IsMember({"table", "json"}))
          ->capture_default_str();
    }
    app_.footer(absl::StrCat(kTableHelp, kExitCodes));
  }

  // arguments: those behind the command's name and before it.
  int Run(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      out_ << app_.help();
      return Done();
    } catch (const CLI::ExtrasError&) {
      return Usage(Unexpected());
    } catch (const CLI::Error& error) {
      return Usage(error.what());
    }
    // The name is never seen: it fills the place that the server's syntax has for it.
    const absl::StatusOr<TableOptions> options = ParseTableOptions(absl::StrCat("table=", in_));
    if (!options.ok()) return Usage(std::string(options.status().message()));
    return is_convert() ? Convert(*options) : PrintFacts(*options);
  }

 private:
  bool is_convert() const { return absl::string_view(name_.name) == "convert"; }

  int Done() {
    out_.flush();
    if (out_) return kExitOk;
    err_ << "embedding-cli: stdout could not be written\n";
    return kExitUnexpected;
  }

  int Usage(const std::string& message) {
    err_ << "embedding-cli: " << message << "\nSee " << app_.get_name() << " --help\n";
    return kExitUsage;
  }

  int Failed(const absl::Status& status) {
    err_ << "embedding-cli: " << std::string(status.message()) << "\n";
    switch (status.code()) {
      case absl::StatusCode::kInvalidArgument:
        return kExitUsage;
      case absl::StatusCode::kDataLoss:
        return kExitDataFile;
      default:
        return kExitUnexpected;
    }
  }

  std::string Unexpected() const {
    const std::vector<std::string> rest = app_.remaining();
    for (const std::string& word : rest) {
      if (word.size() < 2 || word[0] != '-') continue;
      std::vector<std::string> known;
      for (const CLI::Option* option : app_.get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
      const std::string flag = word.substr(0, word.find('='));
      const std::string suggestion = client::Suggestion(flag, known);
      return absl::StrCat("unknown flag ", flag, suggestion.empty() ? "" : "; did you mean " + suggestion + "?");
    }
    return absl::StrCat("unexpected word \"", rest.empty() ? "" : rest.front(), "\"");
  }

  int Convert(const TableOptions& options) {
    WriteOptions write;
    write.path = path_;
    write.force = force_;
    write.write_keys = !no_keys_;
    write.tensor = options.tensor.empty() ? "embeddings" : options.tensor;
    const std::optional<FileFormat> format = FileFormatOf(path_);
    if (!format.has_value()) {
      return Usage(absl::StrCat("OUT ", Quoted(path_), " ends in none of .safetensors, .npy and .fbin"));
    }
    write.format = *format;
    if (!dtype_.empty()) {
      // Before the table is read, which may take long.
      if (absl::Status status = CheckHolds(*format, *DtypeFromName(dtype_)); !status.ok()) return Failed(status);
    }
    WorkerPool pool(AvailableCpus());
    const absl::StatusOr<std::unique_ptr<EmbeddingTable>> table = LoadTable(options, TableLimits(), pool);
    if (!table.ok()) return Failed(table.status());
    write.dtype = dtype_.empty() ? (*table)->dtype() : *DtypeFromName(dtype_);
    if (absl::Status status = CheckHolds(*format, write.dtype); !status.ok()) return Failed(status);
    if (absl::Status status = WriteTable(**table, write); !status.ok()) return Failed(status);
    out_ << client::Printable(path_) << ": " << (*table)->num_rows() << " x " << (*table)->dim() << " "
         << std::string(DtypeName(write.dtype)) << "\n";
    if (write.write_keys && (*table)->vocabulary() != nullptr) {
      out_ << client::Printable(KeysPath(path_)) << ": " << (*table)->num_rows() << " keys\n";
    }
    return Done();
  }

  int PrintFacts(const TableOptions& options) {
    WorkerPool pool(AvailableCpus());
    const absl::StatusOr<TableFacts> facts = Inspect(options, pool);
    if (!facts.ok()) {
      // Which tensor to name is what one wants to know then.
      const std::vector<TensorFacts> tensors = TensorsOf(options.path);
      if (!tensors.empty() && output_ == "table") out_ << TensorsText(tensors) << std::flush;
      return Failed(facts.status());
    }
    out_ << (output_ == "json" ? FactsJson(*facts) + "\n" : FactsText(*facts));
    return Done();
  }

  const FileCommandName& name_;
  CLI::App app_;
  std::ostream& out_;
  std::ostream& err_;
  std::string in_;
  std::string path_;
  std::string dtype_;
  std::string output_ = "table";
  bool force_ = false;
  bool no_keys_ = false;
};

}  // namespace

std::optional<int> RunFileCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  size_t at = 0;
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at][0] == '-') {
    at += arguments[at] == "--output" || arguments[at] == "--dtype" ? 2 : 1;
  }
  if (at >= arguments.size()) return std::nullopt;
  for (const FileCommandName& name : kFileCommands) {
    if (arguments[at] != name.name) continue;
    std::vector<std::string> rest = arguments;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    return FileCommand(name, out, err).Run(std::move(rest));
  }
  return std::nullopt;
}

}  // namespace embedding::cli
