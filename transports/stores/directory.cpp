#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>

#include "transports/stores/object_store.hpp"

namespace baton::transports::stores {

namespace {

namespace fs = std::filesystem;

/// No part of a key becomes a name that begins so: an object that is being written.
constexpr std::string_view partial = ".partial-";

/// Owns a file descriptor.
class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

error refused(const std::string& what, const fs::path& path, int number) {
  return {errc::io_failed, what + " " + path.string() + ": " + std::system_category().message(number)};
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// A part of a key as the name of a file: what could mean anything to a file system is written as %XX.
std::string name_of_part(std::string_view part) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    if (is_plain(c) || (c == '.' && i > 0)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', digits[byte >> 4], digits[byte & 15]};
  }
  return out;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// Another one at each call, in all processes of all machines that may share the directory.
std::string draft_number() {
  static const std::uint64_t process = std::random_device{}() | std::uint64_t{std::random_device{}()} << 32;
  static std::atomic<std::uint64_t> drafts{0};
  return std::to_string(process) + "-" + std::to_string(drafts.fetch_add(1));
}

/// The part that has this name; nothing for a file that is none of ours.
std::optional<std::string> part_of_name(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      out += name[i];
      continue;
    }
    if (i + 2 >= name.size() || digit(name[i + 1]) < 0 || digit(name[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(digit(name[i + 1]) << 4 | digit(name[i + 2]));
    i += 2;
  }
  return name_of_part(out) == name ? std::optional{out} : std::nullopt;
}

/// The parts of a key; none if it is no key.
std::vector<std::string_view> parts_of(std::string_view key) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    if (end == begin) return {};
    parts.push_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

result<void> write_whole(int file, std::span<const std::byte> object) {
  while (!object.empty()) {
    const ssize_t written = ::write(file, object.data(), object.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return {errc::io_failed, std::system_category().message(errno)};
    object = object.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

/// What a directory says of its entries is durable from here on.
result<void> keep_names(const fs::path& folder) {
  const descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened || ::fsync(opened.get()) != 0) return refused("cannot sync", folder, errno);
  return {};
}

class directory final : public object_store {
 public:
  directory(const std::string& path, fs::path root) : where_("file:" + path), root_(std::move(root)) {}

  [[nodiscard]] const std::string& where() const noexcept override { return where_; }

  result<void> put(const std::string& key, std::span<const std::byte> object) override {
    const auto path = path_of(key);
    if (!path) return path.failure();
    const fs::path draft = path->parent_path() / (std::string{partial} + draft_number());
    auto written = write(draft, object);
    // Who removes the last object of a folder removes it, too.
    for (int tries = 0; !written && written.code() == errc::not_found && tries < 16; ++tries) {
      if (auto made = make_folder(path->parent_path()); !made) return made;
      written = write(draft, object);
    }
    if (written && ::rename(draft.c_str(), path->c_str()) != 0)
      written = refused("cannot name", *path, errno);
    if (!written) {
      ::unlink(draft.c_str());
      return written;
    }
    return keep_names(path->parent_path());
  }

  result<bytes> get(const std::string& key, std::size_t most) override {
    const auto path = path_of(key);
    if (!path) return path.failure();
    const descriptor file{::open(path->c_str(), O_RDONLY | O_CLOEXEC)};
    if (!file && (errno == ENOENT || errno == ENOTDIR)) return {errc::not_found, "there is no object " + key};
    if (!file) return refused("cannot open", *path, errno);
    const off_t size = ::lseek(file.get(), 0, SEEK_END);
    if (size < 0) return refused("cannot read", *path, errno);
    if (static_cast<std::size_t>(size) > most)
      return {errc::no_room, "object " + key + " has " + std::to_string(size) + " bytes"};
    bytes out(static_cast<std::size_t>(size));
    std::size_t got = 0;
    while (got < out.size()) {
      const ssize_t step = ::pread(file.get(), out.data() + got, out.size() - got, static_cast<off_t>(got));
      if (step < 0 && errno == EINTR) continue;
      if (step < 0) return refused("cannot read", *path, errno);
      if (step == 0) return {errc::io_failed, "object " + key + " ends early"};
      got += static_cast<std::size_t>(step);
    }
    return out;
  }

  result<std::vector<std::string>> list(const std::string& folder) override {
    fs::path begin = root_;
    if (!folder.empty()) {
      const auto path = path_of(folder);
      if (!path) return path.failure();
      begin = *path;
    }
    std::vector<std::string> keys;
    std::error_code failed;
    for (fs::recursive_directory_iterator it{begin, failed}, end; !failed && it != end; it.increment(failed))
      if (auto key = key_of(*it)) keys.push_back(std::move(*key));
    if (failed && failed != std::errc::no_such_file_or_directory)
      return {errc::io_failed, "cannot list " + begin.string() + ": " + failed.message()};
    std::ranges::sort(keys);
    return keys;
  }

  result<void> remove(const std::string& key) override {
    const auto path = path_of(key);
    if (!path) return path.failure();
    if (::unlink(path->c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
      return refused("cannot remove", *path, errno);
    // The folders that it leaves empty go, too: nobody lists them, and they are many.
    for (fs::path folder = path->parent_path(); folder != root_ && ::rmdir(folder.c_str()) == 0;)
      folder = folder.parent_path();
    return {};
  }

 private:
  [[nodiscard]] result<fs::path> path_of(const std::string& key) const {
    const auto parts = parts_of(key);
    if (parts.empty()) return {errc::invalid_argument, "\"" + key + "\" is no key"};
    fs::path path = root_;
    for (const std::string_view part : parts)
      path /= name_of_part(part);
    return path;
  }

  [[nodiscard]] std::optional<std::string> key_of(const fs::directory_entry& entry) const {
    std::error_code ignored;
    if (!entry.is_regular_file(ignored)) return std::nullopt;
    std::string key;
    for (const fs::path& name : entry.path().lexically_relative(root_)) {
      const auto part = part_of_name(name.string());
      if (!part) return std::nullopt;
      key += (key.empty() ? "" : "/") + *part;
    }
    return key;
  }

  /// Every folder on the way, durably: a folder that a crash forgets takes its objects with it.
  result<void> make_folder(const fs::path& folder) const {
    if (folder == root_ || fs::is_directory(folder)) return {};
    if (auto made = make_folder(folder.parent_path()); !made) return made;
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return refused("cannot make", folder, errno);
    return keep_names(folder.parent_path());
  }

  /// `not_found` if its folder is not there.
  static result<void> write(const fs::path& path, std::span<const std::byte> object) {
    const descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    if (!file && errno == ENOENT) return {errc::not_found, "cannot make " + path.string()};
    if (!file) return refused("cannot make", path, errno);
    if (const auto written = write_whole(file.get(), object); !written)
      return {errc::io_failed, "cannot write " + path.string() + ": " + written.failure().what};
    if (::fsync(file.get()) != 0) return refused("cannot sync", path, errno);
    return {};
  }

  std::string where_;
  fs::path root_;
};

}  // namespace

result<std::unique_ptr<object_store>> open_directory(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  const fs::path root = failed ? fs::path{} : fs::canonical(path, failed);
  if (failed) return {errc::io_failed, "cannot make " + path + ": " + failed.message()};
  if (::access(root.c_str(), W_OK | X_OK) != 0) return refused("cannot write in", root, errno);
  return std::unique_ptr<object_store>{std::make_unique<directory>(path, root)};
}

}  // namespace baton::transports::stores
