#include "actors/stores/record_store.hpp"

#include <sqlite3.h>

#include <utility>

#include "schemas/codec.hpp"

namespace baton::actors::stores {

namespace {

// One orchestrator at a time: whoever has the file keeps it locked until its process ends.
constexpr const char* schema = R"sql(
  PRAGMA locking_mode = EXCLUSIVE;
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS groups (id INTEGER PRIMARY KEY, revision INTEGER NOT NULL, record BLOB NOT NULL) STRICT;
  INSERT OR IGNORE INTO counter VALUES ('term', 0), ('revision', 0),
    ('store', (random() & 4611686018427387903) | 1);
)sql";

struct close_database {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct finalize_statement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using database_ptr = std::unique_ptr<sqlite3, close_database>;
using statement_ptr = std::unique_ptr<sqlite3_stmt, finalize_statement>;

class sqlite_store final : public record_store {
 public:
  sqlite_store(database_ptr database, std::string path)
      : database_(std::move(database)), path_(std::move(path)) {}

  result<void> execute(const char* sql) {
    if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
    return failed();
  }

  result<office> begin_term() override {
    auto term = next("term");
    if (!term) return term.failure();
    auto statement = prepare("SELECT value FROM counter WHERE name = 'store'");
    if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return failed();
    return office{*term, static_cast<std::uint64_t>(sqlite3_column_int64(statement.get(), 0))};
  }

  result<std::vector<group_record>> load() override {
    auto statement = prepare("SELECT record FROM groups ORDER BY id");
    if (!statement) return failed();
    std::vector<group_record> records;
    int status = sqlite3_step(statement.get());
    for (; status == SQLITE_ROW; status = sqlite3_step(statement.get())) {
      auto record = column(statement.get(), 0);
      if (!record) return {errc::io_failed, path_ + ": a damaged record: " + record.failure().what};
      records.push_back(std::move(*record));
    }
    if (status != SQLITE_DONE) return failed();
    return records;
  }

  result<group_record> swap(group_record desired, std::uint64_t expected, bool new_epoch) override {
    if (auto begun = execute("BEGIN IMMEDIATE"); !begun) return begun.failure();
    auto outcome = swap_within(std::move(desired), expected, new_epoch);
    if (!outcome) {
      (void)execute("ROLLBACK");
      return outcome;
    }
    if (auto committed = execute("COMMIT"); !committed) {
      (void)execute("ROLLBACK");
      return committed.failure();
    }
    return outcome;
  }

 private:
  result<group_record> swap_within(group_record desired, std::uint64_t expected, bool new_epoch) {
    auto found = prepare("SELECT revision FROM groups WHERE id = ?");
    if (!found) return failed();
    bind(found.get(), 1, raw(desired.group));
    const int status = sqlite3_step(found.get());
    if (status != SQLITE_ROW && status != SQLITE_DONE) return failed();
    const std::uint64_t held =
        status == SQLITE_ROW ? static_cast<std::uint64_t>(sqlite3_column_int64(found.get(), 0)) : 0;
    if (held != expected)
      return {errc::conflict, "revision is " + std::to_string(held) + ", not " + std::to_string(expected)};
    auto revision = next("revision");
    if (!revision) return revision.failure();
    desired.revision = *revision;
    if (new_epoch) desired.epoch = epoch{*revision};
    const auto bytes = encode(desired);
    auto write = prepare("INSERT OR REPLACE INTO groups (id, revision, record) VALUES (?, ?, ?)");
    if (!write) return failed();
    bind(write.get(), 1, raw(desired.group));
    bind(write.get(), 2, desired.revision);
    sqlite3_bind_blob64(write.get(), 3, bytes.data(), bytes.size(), SQLITE_STATIC);
    if (sqlite3_step(write.get()) != SQLITE_DONE) return failed();
    return desired;
  }

  result<std::uint64_t> next(const char* counter) {
    auto statement = prepare("UPDATE counter SET value = value + 1 WHERE name = ? RETURNING value");
    if (!statement) return failed();
    sqlite3_bind_text(statement.get(), 1, counter, -1, SQLITE_STATIC);
    if (sqlite3_step(statement.get()) != SQLITE_ROW) return failed();
    const auto value = static_cast<std::uint64_t>(sqlite3_column_int64(statement.get(), 0));
    if (sqlite3_step(statement.get()) != SQLITE_DONE) return failed();
    return value;
  }

  static result<group_record> column(sqlite3_stmt* statement, int index) {
    const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement, index));
    return decode<group_record>({data, static_cast<std::size_t>(sqlite3_column_bytes(statement, index))});
  }

  statement_ptr prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr);
    return statement_ptr{statement};
  }

  static void bind(sqlite3_stmt* statement, int index, std::uint64_t value) {
    sqlite3_bind_int64(statement, index, static_cast<sqlite3_int64>(value));
  }

  [[nodiscard]] error failed() const {
    return {errc::io_failed, path_ + ": " + sqlite3_errmsg(database_.get())};
  }

  database_ptr database_;
  std::string path_;
};

}  // namespace

result<std::unique_ptr<record_store>> open_sqlite_store(const std::string& path) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int status = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  database_ptr database{handle};
  if (status != SQLITE_OK)
    return {errc::io_failed,
            "store " + path + ": " + (handle != nullptr ? sqlite3_errmsg(handle) : "out of memory")};
  constexpr int busy_timeout_ms = 2000;
  sqlite3_busy_timeout(handle, busy_timeout_ms);
  auto store = std::make_unique<sqlite_store>(std::move(database), "store " + path);
  if (auto made = store->execute(schema); !made) {
    if (sqlite3_errcode(handle) != SQLITE_BUSY) return made.failure();
    return {errc::conflict, "store " + path + ": another orchestrator has it; each needs a store of its own"};
  }
  return std::unique_ptr<record_store>{std::move(store)};
}

}  // namespace baton::actors::stores
