"""JupyterLab for the course: opening a lesson does not mark it as changed, and saving keeps its tracked metadata.

A notebook describes the language of its kernel: the version of Python, the editor's mode and so on. JupyterLab fills in
this description when a kernel starts, and then the notebook counts as changed. In Git, the notebooks have only the
language's name, so that they are the same on every machine. So the description is added when a notebook is opened, and
reduced to the name when it is saved.

The list of files shows the lessons only. JupyterLab always lists folders first, so `pictures`, `solutions` and `source`
would stand before the lessons. The start page has links to the solved notebooks.

`tools/lab.sh` puts this folder into JUPYTER_CONFIG_PATH. The folder `labconfig` next to this file turns off the
question about news, and `custom` has a style sheet for the dark theme and for narrow windows.
"""

from pathlib import Path
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

LANGUAGE = "python"


class LessonManager(AsyncLargeFileManager):
    """Read and write files as JupyterLab does, except for the description of Python in notebooks."""

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        """Return a file or folder. A notebook gets the whole description of the language."""
        model = await super().get(*args, **kwargs)
        content = model.get("content")
        if model["type"] == "notebook" and content:
            language = content["metadata"].get("language_info")
            if language == {"name": LANGUAGE}:
                content["metadata"]["language_info"] = dict(IPythonKernel.language_info)
        return model


def reduce_metadata(model: dict[str, Any], **_: Any) -> None:
    """Keep only the language's name, before a notebook is written."""
    if model["type"] != "notebook" or not model.get("content"):
        return
    metadata = model["content"]["metadata"]
    if metadata.get("language_info", {}).get("name") == LANGUAGE:
        metadata["language_info"] = {"name": LANGUAGE}


c = get_config()  # type: ignore[name-defined]  # noqa: F821  # Jupyter defines it.
c.ServerApp.contents_manager_class = LessonManager
c.ServerApp.static_custom_path = [str(Path(__file__).parent / "custom")]
c.LabApp.custom_css = True
c.FileContentsManager.pre_save_hook = reduce_metadata
c.ContentsManager.hide_globs = ["__pycache__", "*.pyc", ".DS_Store", "*~", "pictures", "solutions", "source"]
