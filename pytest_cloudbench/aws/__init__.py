"""EC2 over boto3, as a provider: launch, attach, wait, tag, journal, tear down, reap.

access = CloudAccess(region="eu-west-1")
reap(access)
with Cloud(access, run_id, Journal.open(run_id, access)) as cloud:
    instance = cloud.launch("c5.18xlarge")
"""
