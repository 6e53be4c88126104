"""Says what this interpreter is: one line of JSON behind a mark. Must parse on every Python 3."""
import json
import sys

facts = {"version": "%d.%d.%d" % sys.version_info[:3]}
if sys.version_info >= (3, 9):
    import importlib.metadata
    import importlib.util
    import os
    import re
    import site
    import sysconfig

    def names_in(folder):
        try:
            return {entry.split(".")[0] for entry in os.listdir(folder)}
        except OSError:
            return set()

    def distributions():
        found = {}
        for distribution in importlib.metadata.distributions():
            try:
                name, version = distribution.metadata["Name"], distribution.version
            except Exception:  # a half-removed distribution
                continue
            if name and version:
                found.setdefault(re.sub(r"[-_.]+", "-", str(name)).lower(), str(version))
        return found

    stdlib_folder = sysconfig.get_path("stdlib")
    stdlib = set(sys.builtin_module_names) | set(getattr(sys, "stdlib_module_names", ()))
    if not hasattr(sys, "stdlib_module_names"):  # before 3.10
        stdlib |= names_in(stdlib_folder) | names_in(os.path.join(stdlib_folder, "lib-dynload"))
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix"
    facts.update(
        path=sys.executable,
        base_path=getattr(sys, "_base_executable", None) or sys.executable,
        abi="%s %s" % (sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag, sysconfig.get_platform()),
        prefix=sys.prefix,
        base_prefix=sys.base_prefix,
        site_dirs=site.getsitepackages(),
        venv_site=os.path.relpath(sysconfig.get_path("purelib", scheme, {"base": "/venv", "platbase": "/venv"}), "/venv"),
        stdlib=sorted(name for name in stdlib if name.isidentifier() and name != "__pycache__"),
        packages=distributions(),
        has_pip=importlib.util.find_spec("pip") is not None,
        has_ensurepip=importlib.util.find_spec("ensurepip") is not None,
    )
print("\nsandscript-probe:" + json.dumps(facts))
