# Turns tables that only Python can read into CSV, in a throw-away sandbox. NAMES is put in front.
import json
import pandas

ROWS = 100_000

for number, name in enumerate(NAMES):
    try:
        sheet, others = "", []
        if name.lower().endswith((".parquet", ".feather")):
            read = pandas.read_parquet if name.lower().endswith(".parquet") else pandas.read_feather
            table = read(name).head(ROWS + 1)
        else:
            book = pandas.ExcelFile(name)
            sheet, *others = book.sheet_names
            table = book.parse(sheet, nrows=ROWS + 1)
        table.head(ROWS).to_csv(f"table-{number}.csv", index=False)
        told = {"number": number, "sheet": str(sheet), "others": [str(o) for o in others[:8]], "cut": len(table) > ROWS}
        print(json.dumps(told))
    except Exception:
        pass  # named with its size alone; the code will get the same error and can say it
