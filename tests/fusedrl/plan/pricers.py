"""Small clusters, models and steps for tests of plans."""

from fusedrl.plan.analytic import AnalyticCosts
from fusedrl.plan.cluster import read_cluster
from fusedrl.plan.price import Pricer
from fusedrl.plan.sizes import read_model
from fusedrl.plan.workload import Workload, log_normal


def small_work(*, samples: int = 16, mini_batches: int = 2, seed: int = 0) -> Workload:
    return log_normal(mean=20, longest=64, samples=samples, seed=seed, prompt=16, mini_batches=mini_batches)


def tiny_pricer(cluster: str = "cpu_1x2", *, own_inference: bool = True, work: Workload | None = None) -> Pricer:
    """The tiny model four times, in float32."""
    policy, value = read_model("tiny"), read_model("tiny", head="value")
    models = {"actor": policy, "ref": policy, "critic": value, "reward": value}
    costs = AnalyticCosts(read_cluster(cluster), "float32")
    return Pricer(costs, models, work or small_work(), own_inference=own_inference)


def llama_pricer(cluster: str, *, actor: str = "llama_7b", critic: str = "llama_7b", samples: int = 256) -> Pricer:
    work = log_normal(mean=512, longest=1024, samples=samples, seed=0, prompt=1024, mini_batches=4)
    policy, value = read_model(actor), read_model(critic, head="value")
    models = {"actor": policy, "ref": policy, "critic": value, "reward": value}
    return Pricer(AnalyticCosts(read_cluster(cluster)), models, work)
