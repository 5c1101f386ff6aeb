"""
The objects of the cluster in memory, as its API serves them.

They have the size of real ones: 5 kB a pod, 4 kB a Deployment, with managed fields. An object is rendered when it is
served, because 100,000 rendered pods would be half a gigabyte.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

_MANAGED = (
    '[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-11-02T10:15:00Z",'
    '"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},'
    '"f:app.kubernetes.io/managed-by":{},"f:pod-template-hash":{},"f:team":{}},"f:ownerReferences":{".":{},'
    '"k:{\\"uid\\":\\"9c1a7a1e-5a0e-4b3a-9a54-0d5a9f3a7c11\\"}":{}}},"f:spec":{"f:containers":{"k:{\\"name\\":\\"app\\"}":'
    '{".":{},"f:env":{},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:failureThreshold":{},'
    '"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{},"f:successThreshold":{},'
    '"f:timeoutSeconds":{}},"f:name":{},"f:ports":{".":{},"k:{\\"containerPort\\":8080,\\"protocol\\":\\"TCP\\"}":{".":{},'
    '"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},"f:requests":'
    '{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},'
    '"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},'
    '"f:terminationGracePeriodSeconds":{}}}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":'
    '"2026-11-02T10:15:20Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\\"type\\":'
    '\\"ContainersReady\\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},'
    '"k:{\\"type\\":\\"Ready\\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},'
    '"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{},"f:startTime":{}}},'
    '"subresource":"status"}]'
)
_CONTAINER = (
    '{"name":"app","image":"registry.example.com/team/app:1.42.0","ports":[{"containerPort":8080,"protocol":"TCP"}],'
    '"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"REGION","value":"eu-central-1"},{"name":"POD_NAME","valueFrom":'
    '{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],"resources":{"limits":{"memory":"512Mi"},"requests":'
    '{"cpu":"1","memory":"256Mi"}},"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},'
    '"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":'
    '"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}'
)
_POD_SPEC = (
    '"spec":{"volumes":[{"name":"kube-api-access-x2x7k","projected":{"sources":[{"serviceAccountToken":'
    '{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":'
    '"ca.crt"}]}}],"defaultMode":420}}],"containers":[' + _CONTAINER + '],"restartPolicy":"Always",'
    '"terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":'
    '"default","nodeName":"ip-10-1-2-3.eu-central-1.compute.internal","securityContext":{},"schedulerName":'
    '"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute",'
    '"tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute",'
    '"tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}'
)


class FleetPod(NamedTuple):
    """ready: when it became Ready, 0 before. stage: 0 created, 1 scheduled, 2 running, 3 Ready, 4 ending."""

    namespace: str
    app: str
    name: str
    uid: str
    version: int
    created: int
    ready: int
    stage: int

    def rendered(self) -> str:
        created, phase = stamp(self.created), "Running" if self.stage > 1 else "Pending"
        ready = (
            f'"True","lastTransitionTime":"{stamp(self.ready)}"'
            if self.ready
            else f'"False","lastTransitionTime":"{created}"'
        )
        conditions = ",".join(
            f'{{"type":"{kind}","status":{status},"lastProbeTime":null}}'
            for kind, status in (
                ("PodReadyToStartContainers", f'"True","lastTransitionTime":"{created}"'),
                ("Initialized", f'"True","lastTransitionTime":"{created}"'),
                ("Ready", ready),
                ("ContainersReady", ready),
                ("PodScheduled", f'"True","lastTransitionTime":"{created}"'),
            )[: 5 if self.stage > 1 else 0]
        )
        started = f'"startTime":"{created}",' if self.stage > 1 else ""
        ending = f'"deletionTimestamp":"{created}",' if self.stage == 4 else ""
        digest = "sha256:0f8b424aa0b96c1c388a5fd4d90735604459256336853082afb61733438872b5"
        return (
            f'{{"metadata":{{"name":"{self.name}","generateName":"{self.name[:-5]}","namespace":"{self.namespace}",'
            f'"uid":"{self.uid}","resourceVersion":"{self.version}","creationTimestamp":"{created}",{ending}'
            f'"labels":{{"app":"{self.app}","app.kubernetes.io/managed-by":"argocd","pod-template-hash":'
            f'"{self.name[-16:-6]}","team":"shop"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet",'
            f'"name":"{self.name[:-6]}","uid":"{self.uid}","controller":true,"blockOwnerDeletion":true}}],'
            f'"managedFields":{_MANAGED}}},{_POD_SPEC},"status":{{"phase":"{phase}","conditions":[{conditions}],'
            f'{started}"hostIP":"10.1.2.3","hostIPs":[{{"ip":"10.1.2.3"}}],"podIP":"10.2.3.4","podIPs":[{{"ip":'
            f'"10.2.3.4"}}],"containerStatuses":[{{"name":"app","state":{{"running":{{"startedAt":"{created}"}}}},'
            f'"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example.com/team/app:1.42.0","imageID":'
            f'"registry.example.com/team/app@{digest}","containerID":"containerd://{digest[7:]}","started":true}}],'
            f'"qosClass":"Burstable"}}}}'
        )

    def metrics(self, nanocores: int, at: str) -> str:
        return (
            f'{{"metadata":{{"name":"{self.name}","namespace":"{self.namespace}","creationTimestamp":"{at}","labels":'
            f'{{"app":"{self.app}","pod-template-hash":"{self.name[-16:-6]}","team":"shop"}}}},"timestamp":"{at}",'
            f'"window":"15.1s","containers":[{{"name":"app","usage":{{"cpu":"{nanocores}n","memory":"104456Ki"}}}}]}}'
        )


class Deployment(NamedTuple):
    namespace: str
    name: str
    uid: str
    version: int
    generation: int
    replicas: int
    status_replicas: int

    def rendered(self) -> str:
        return (
            f'{{"metadata":{{"name":"{self.name}","namespace":"{self.namespace}","uid":"{self.uid}","resourceVersion":'
            f'"{self.version}","generation":{self.generation},"creationTimestamp":"2026-11-02T10:15:00Z","labels":'
            f'{{"app":"{self.name}","team":"shop"}},"annotations":{{"deployment.kubernetes.io/revision":"7"}},'
            f'"managedFields":{_MANAGED}}},"spec":{{"replicas":{self.replicas},"selector":{{"matchLabels":{{"app":'
            f'"{self.name}"}}}},"template":{{"metadata":{{"labels":{{"app":"{self.name}","team":"shop"}}}},{_POD_SPEC}}},'
            f'"strategy":{{"type":"RollingUpdate"}},"revisionHistoryLimit":10}},"status":{{"observedGeneration":'
            f'{self.generation},"replicas":{self.status_replicas},"updatedReplicas":{self.status_replicas},'
            f'"readyReplicas":{self.status_replicas}}}}}'
        )

    def scale(self) -> dict[str, Any]:
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "uid": self.uid,
                "resourceVersion": str(self.version),
            },
            "spec": {"replicas": self.replicas},
            "status": {"replicas": self.status_replicas, "selector": f"app={self.name}"},
        }


class CronHpa(NamedTuple):
    """A custom resource: its body is replaced at each change, never edited."""

    body: dict[str, Any]

    def rendered(self) -> str:
        return msgspec.json.encode(self.body).decode()


def stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def rendered_list(items: Iterable[Any], version: int, going: str) -> bytes:
    texts = ",".join(resource.rendered() for resource in items)
    meta = f'"resourceVersion":"{version}"' + (f',"continue":"{going}"' if going else "")
    return f'{{"kind":"List","metadata":{{{meta}}},"items":[{texts}]}}'.encode()
